// Tests of the tile operations (kernels/cpu/simd/amx_tiles.h) against scalar arithmetic. The plain
// form runs on every processor with AVX2, the unit where there is one. Both must give every bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/instruction_set.h"
#include "tests/kernels/cpu/amx_tile_functions.h"

namespace longstream {
namespace {

constexpr int kColumns = 16;

std::vector<std::string> Forms() {
  std::vector<std::string> forms;
  if (HasAvx2()) forms.emplace_back("plain");
  if (HasAmx()) forms.emplace_back("unit");
  return forms;
}

// Random bits with exponents from `low` to `high`. An exponent of 0 gives zeros and subnormals.
class Bits {
 public:
  uint32_t F32(int low, int high) { return (random_() & 0x807fffffu) | Exponent(low, high) << 23; }
  uint16_t BF16(int low, int high) {
    return static_cast<uint16_t>((random_() & 0x807fu) | Exponent(low, high) << 7);
  }
  std::byte Byte() { return static_cast<std::byte>(random_()); }

 private:
  uint32_t Exponent(int low, int high) {
    return static_cast<uint32_t>(std::uniform_int_distribution<int>(low, high)(random_));
  }
  std::mt19937 random_{7};
};

template <typename T>
T At(const std::byte (&rows)[16][kTileRowBytes], int r, int i) {
  T value;
  std::memcpy(&value, rows[r] + i * static_cast<int>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void Set(T value, int r, int i, std::byte (&rows)[16][kTileRowBytes]) {
  std::memcpy(rows[r] + i * static_cast<int>(sizeof(T)), &value, sizeof(T));
}

float Widen(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

constexpr float kLeast = std::numeric_limits<float>::min();

float OperandOf(float x) { return std::abs(x) < kLeast ? std::copysign(0.0f, x) : x; }

// a b + c, rounded once. The unit decides whether the result is subnormal after it has rounded it
// to 24 bits.
float FmaOf(float a, float b, float c) {
  const float result = std::fma(a, b, c);
  const double exact = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
  if (std::abs(exact) < 0x1p-126 * (1 - 0x1p-25)) return std::copysign(0.0f, result);
  return result;
}

// One number of the sums.
float SumOf(const TileArrays& arrays, int a, int b, int r, int c, float sum) {
  float odd_and_even[2] = {0.0f, 0.0f};
  for (int i = 0; i < arrays.depth_bytes / 2; ++i) {
    float& part = odd_and_even[i % 2];
    const float x = OperandOf(Widen(At<uint16_t>(arrays.a[a], r, i)));
    const float y = OperandOf(Widen(At<uint16_t>(arrays.b[b], i / 2, 2 * c + i % 2)));
    part = FmaOf(x, y, part);
  }
  return FmaOf(1.0f, OperandOf(sum), FmaOf(1.0f, odd_and_even[0], odd_and_even[1]));
}

class AmxTilesTest : public testing::TestWithParam<std::string> {
 protected:
  AmxTilesTest()
      : form_(GetParam() == "unit" ? cpu::amx::GetTileFunctions()
                                   : cpu::amx_plain::GetTileFunctions()) {}

  // Calls test(arrays) for all shapes of tiles.
  template <typename Test>
  void ForShapes(const Test& test) {
    const auto arrays = std::make_unique<TileArrays>();
    for (int rows = 0; rows <= 16; ++rows) {
      for (const int more_rows : {0, 1, 7, 16}) {
        if (rows + more_rows == 0) continue;
        for (int depth_bytes = 4; depth_bytes <= 64; depth_bytes += 4) {
          arrays->rows[0] = rows;
          arrays->rows[1] = more_rows;
          arrays->depth_bytes = depth_bytes;
          test(*arrays);
        }
      }
    }
  }

  void FillNumbers(int low, int high, int low_sum, int high_sum, TileArrays* arrays) {
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 40; ++i) {
        for (auto& a : arrays->a) Set(bits_.BF16(low, high), r, i, a);
        for (auto& b : arrays->b) Set(bits_.BF16(low, high), r, i, b);
      }
      for (int i = 0; i < 20; ++i) {
        for (auto& sums : arrays->sums) Set(bits_.F32(low_sum, high_sum), r, i, sums);
      }
    }
  }

  // Multiplies, and compares the bits of all sums. The bytes behind the rows of the tiles, and the
  // tiles' rows that do not exist, stay as they are.
  void ExpectProduct(TileArrays& arrays, bool add) {
    TileArrays expected = arrays;
    for (int tile = 0; tile < 4; ++tile) {
      for (int r = 0; r < arrays.rows[tile / 2]; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          const float before = add ? At<float>(arrays.sums[tile], r, c) : 0.0f;
          Set(SumOf(arrays, tile / 2, tile % 2, r, c, before), r, c, expected.sums[tile]);
        }
      }
    }
    (add ? form_.multiply_bf16 : form_.product_bf16)(arrays);
    ExpectSame(arrays, expected);
  }

  static void ExpectSame(const TileArrays& arrays, const TileArrays& expected) {
    for (int tile = 0; tile < 4; ++tile) {
      for (int r = 0; r < 16; ++r) {
        for (int c = 0; c < kTileRowBytes / 4; ++c) {
          ASSERT_EQ(At<uint32_t>(arrays.sums[tile], r, c), At<uint32_t>(expected.sums[tile], r, c))
              << "tile " << tile << " row " << r << " column " << c << " of " << arrays.rows[0]
              << " and " << arrays.rows[1] << " rows, depth " << arrays.depth_bytes;
        }
      }
    }
  }

  const TileFunctions form_;
  Bits bits_;
};

// Numbers of all sizes, as long as no product overflows.
TEST_P(AmxTilesTest, ProductsOfBF16) {
  ForShapes([&](TileArrays& arrays) {
    FillNumbers(0, 180, 0, 240, &arrays);
    ExpectProduct(arrays, true);
  });
}

// Like numbers in a model: their sums cancel.
TEST_P(AmxTilesTest, ProductsOfBF16WithoutSums) {
  ForShapes([&](TileArrays& arrays) {
    FillNumbers(122, 128, 0, 240, &arrays);
    ExpectProduct(arrays, false);
  });
}

// The operands and the results are around the smallest normal numbers.
TEST_P(AmxTilesTest, SubnormalNumbersAreZeros) {
  ForShapes([&](TileArrays& arrays) {
    FillNumbers(55, 75, 0, 6, &arrays);
    ExpectProduct(arrays, true);
    FillNumbers(0, 2, 0, 3, &arrays);
    for (auto& b : arrays.b) {
      for (int r = 0; r < 16; ++r) {
        for (int i = 0; i < 32; ++i) Set(bits_.BF16(120, 130), r, i, b);
      }
    }
    ExpectProduct(arrays, true);
  });
}

TEST_P(AmxTilesTest, ProductsOfBytes) {
  ForShapes([&](TileArrays& arrays) {
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < kTileRowBytes; ++i) {
        for (auto& a : arrays.a) a[r][i] = bits_.Byte();
        for (auto& b : arrays.b) b[r][i] = bits_.Byte();
      }
      for (int c = 0; c < 20; ++c) {
        for (auto& sums : arrays.sums) Set(bits_.F32(0, 100) & 0xfffffffu, r, c, sums);
      }
    }
    TileArrays expected = arrays;
    for (int tile = 0; tile < 4; ++tile) {
      for (int r = 0; r < arrays.rows[tile / 2]; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          auto sum = At<int32_t>(arrays.sums[tile], r, c);
          for (int k = 0; k < arrays.depth_bytes; ++k) {
            sum += At<int8_t>(arrays.a[tile / 2], r, k) *
                   At<uint8_t>(arrays.b[tile % 2], k / 4, 4 * c + k % 4);
          }
          Set(sum, r, c, expected.sums[tile]);
        }
      }
    }
    form_.multiply_bytes(arrays);
    ExpectSame(arrays, expected);
  });
}

// A processor with neither form runs no test here.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AmxTilesTest);
INSTANTIATE_TEST_SUITE_P(Forms, AmxTilesTest, testing::ValuesIn(Forms()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace longstream
