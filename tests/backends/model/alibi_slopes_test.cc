// The slopes of ALiBi and the decay of lightning heads.
#include "backends/model/mixers/alibi_slopes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace longstream {
namespace {

TEST(AlibiSlopesTest, PowersOfTwo) {
  // 2^(-8 h / 4): 1/4, 1/16, 1/64, 1/256.
  EXPECT_EQ(AlibiSlopes(4), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  EXPECT_EQ(AlibiSlopes(1), std::vector<float>{0.00390625f});
  const std::vector<float> sixteen = AlibiSlopes(16);
  ASSERT_EQ(sixteen.size(), 16u);
  EXPECT_FLOAT_EQ(sixteen[0], std::sqrt(0.5f));
  EXPECT_EQ(sixteen[15], 0.00390625f);
}

TEST(AlibiSlopesTest, OtherRanges) {
  EXPECT_EQ(AlibiSlopes(4, 16.0), (std::vector<float>{0x1p-4f, 0x1p-8f, 0x1p-12f, 0x1p-16f}));
  EXPECT_EQ(AlibiSlopes(3, 4.0), (std::vector<float>{0x1p-2f, 0x1p-4f, 0x1p-1f}));
}

TEST(AlibiSlopesTest, OtherNumbersTakeEveryOtherSlopeOfTwiceAsMany) {
  // Six heads have the four slopes of 4 heads, then the first and third of 8 heads: 2^-1 and 2^-3.
  EXPECT_EQ(AlibiSlopes(6),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  // Three heads have the two slopes of 2 heads (2^-4, 2^-8), then the first of 4 heads.
  EXPECT_EQ(AlibiSlopes(3), (std::vector<float>{0.0625f, 0.00390625f, 0.25f}));
}

TEST(AlibiSlopesTest, DecaysAreTheirNegatives) {
  EXPECT_EQ(LightningLogDecay(3), (std::vector<float>{-0.0625f, -0.00390625f, -0.25f}));
}

}  // namespace
}  // namespace longstream
