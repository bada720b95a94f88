// Conversion of stored elements: every f16, every rounding, misaligned sources, lost numbers.
#include "backends/packing/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace longstream {
namespace {

TEST(ToF16Test, EveryF16ComesBack) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const float wide = ToF32(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(ToF32(ToF16(wide)))) << bits;
    } else {
      EXPECT_EQ(ToF16(wide).bits, half.bits) << bits;
    }
  }
}

// Between two neighbours, numbers below the middle are rounded down and numbers above it up. The
// middle is rounded to the even neighbour.
TEST(ToF16Test, RoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7bffu; ++bits) {
    const float low = ToF32(F16{static_cast<uint16_t>(bits)});
    const float high = ToF32(F16{static_cast<uint16_t>(bits + 1)});
    const float middle = (low + high) / 2;  // exact: f32 has 13 more bits
    EXPECT_EQ(ToF16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(ToF16(std::nextafterf(middle, low)).bits, bits);
    EXPECT_EQ(ToF16(std::nextafterf(middle, high)).bits, bits + 1);
    EXPECT_EQ(ToF16(-std::nextafterf(middle, high)).bits, 0x8000u | (bits + 1));
  }
}

TEST(ToF16Test, EndsOfTheRange) {
  EXPECT_EQ(ToF16(65504.0f).bits, 0x7bffu);
  EXPECT_EQ(ToF16(65519.996f).bits, 0x7bffu);
  EXPECT_EQ(ToF16(65520.0f).bits, 0x7c00u);
  EXPECT_EQ(ToF16(-std::numeric_limits<float>::infinity()).bits, 0xfc00u);
  EXPECT_EQ(ToF16(std::numeric_limits<float>::denorm_min()).bits, 0u);
}

TEST(ConvertTest, AllPairsFromAMisalignedSource) {
  const std::vector<float> values = {0.0f, -0.0f, 1.0f, -2.5f, 0.333251953125f, 1024.0f};
  for (const DType from : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(std::string(NameOf(from)) + " to " + NameOf(to));
      std::vector<std::byte> source(1 + values.size() * SizeOf(from));
      std::vector<float> expected;
      for (size_t i = 0; i < values.size(); ++i) {
        std::byte* at = source.data() + 1 + i * SizeOf(from);
        float stored = values[i];
        if (from == DType::kF32) std::memcpy(at, &values[i], 4);
        if (from == DType::kF16) {
          const F16 half = ToF16(values[i]);
          std::memcpy(at, &half, 2);
          stored = ToF32(half);
        }
        if (from == DType::kBF16) {
          const BF16 half = ToBF16(values[i]);
          std::memcpy(at, &half, 2);
          stored = ToF32(half);
        }
        if (to == DType::kF16) stored = ToF32(ToF16(stored));
        if (to == DType::kBF16) stored = ToF32(ToBF16(stored));
        expected.push_back(stored);
      }
      std::vector<float> out(values.size());
      EXPECT_EQ(
          Convert(source.data() + 1, from, static_cast<int64_t>(values.size()), to, out.data()),
          -1);
      for (size_t i = 0; i < values.size(); ++i) {
        float found = out[i];
        if (to == DType::kF16) {
          F16 half;
          std::memcpy(&half, reinterpret_cast<std::byte*>(out.data()) + 2 * i, 2);
          found = ToF32(half);
        }
        if (to == DType::kBF16) {
          BF16 half;
          std::memcpy(&half, reinterpret_cast<std::byte*>(out.data()) + 2 * i, 2);
          found = ToF32(half);
        }
        EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected[i])) << i;
      }
    }
  }
}

TEST(ConvertTest, NamesTheFirstNumberThatIsLost) {
  const float values[] = {1.0f, std::numeric_limits<float>::infinity(), 70000.0f, 80000.0f};
  F16 halves[4];
  EXPECT_EQ(
      Convert(reinterpret_cast<const std::byte*>(values), DType::kF32, 4, DType::kF16, halves), 2);
  float floats[4];
  EXPECT_EQ(
      Convert(reinterpret_cast<const std::byte*>(values), DType::kF32, 4, DType::kF32, floats), -1);
}

}  // namespace
}  // namespace longstream
