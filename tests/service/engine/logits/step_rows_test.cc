// Pieces of a scored text whose logits are wanted: they end on grid lines, or at the end.
#include "service/engine/logits/step_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace longstream {
namespace {

TEST(StepRows, RowsTakeAboutTheBytesOfAStep) {
  EXPECT_EQ(MostLogitRows(256, 64), 4096u);
  EXPECT_EQ(MostLogitRows(32000, 16), 32u);
  EXPECT_EQ(MostLogitRows(151936, 64), 64u) << "at least one grid";
  EXPECT_EQ(MostLogitRows(1, 1), kLogitBytesOfStep / 4);
}

TEST(StepRows, EveryTextIsReadInPiecesThatEndOnGridLines) {
  for (const uint32_t grid : {1u, 16u, 64u}) {
    for (const uint64_t most : {uint64_t{grid}, uint64_t{grid} * 3}) {
      for (const uint64_t size : {1u, 15u, 64u, 65u, 200u, 1000u}) {
        for (const uint64_t first : {0u, 1u, 63u, 64u, 130u, 999u}) {
          uint64_t position = 0;
          while (position < size) {
            const uint64_t tokens = TokensOfStep(position, size - position, first, most, grid);
            ASSERT_GT(tokens, 0u);
            position += tokens;
            ASSERT_TRUE(position == size || position % grid == 0) << position;
            // Rows that are wanted, or that come with these.
            ASSERT_TRUE(position <= first || tokens <= most);
          }
          ASSERT_EQ(position, size);
        }
      }
    }
  }
}

TEST(StepRows, WhatComesBeforeIsReadAtOnce) {
  EXPECT_EQ(TokensOfStep(0, 1000, 900, 64, 64), 896u);
  EXPECT_EQ(TokensOfStep(896, 104, 900, 64, 64), 64u);
  EXPECT_EQ(TokensOfStep(960, 40, 900, 64, 64), 40u);
  EXPECT_EQ(TokensOfStep(70, 1000, 0, 64, 64), 58u) << "from the middle of a grid";
}

}  // namespace
}  // namespace longstream
