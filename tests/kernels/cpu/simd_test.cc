// Tests of the vector layer on every instruction set: accuracy against f64, special values, and
// exact conversions.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/core/instruction_set.h"
#include "kernels/core/philox.h"
#include "tests/kernels/cpu/simd_functions.h"

namespace longstream {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// |actual - expected| in units of the last place of expected. If expected is subnormal, the unit is
// the smallest number.
double UlpsOff(float actual, double expected) {
  if (std::abs(expected) > std::numeric_limits<float>::max()) {
    return actual == (expected > 0 ? kInfinity : -kInfinity) ? 0 : 1e9;
  }
  const int exponent = std::max(std::ilogb(expected), -126);
  return std::abs(actual - expected) / std::ldexp(1.0, expected == 0 ? -149 : exponent - 23);
}

class SimdTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "baseline") simd_ = cpu::baseline::GetSimdFunctions();
    if (GetParam() == "avx2") simd_ = cpu::avx2::GetSimdFunctions();
    if (GetParam() == "avx512_f32") simd_ = cpu::avx512_f32::GetSimdFunctions();
  }

  void ExpectWithin(void (*function)(const float*, float*, int64_t), double (*exact)(double),
                    const std::vector<float>& x, double max_ulps) {
    std::vector<float> y(x.size());
    function(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    float worst_x = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double off = UlpsOff(y[i], exact(static_cast<double>(x[i])));
      if (!(off <= worst)) worst = off, worst_x = x[i];
    }
    EXPECT_LE(worst, max_ulps) << "at " << worst_x;
  }

  SimdFunctions simd_;
};

// Every 1021st float that lies in [low, high). These floats have all exponents.
std::vector<float> Spread(float low, float high) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < 0x100000000u; bits += 1021) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (value >= low && value < high) x.push_back(value);
  }
  return x;
}

TEST_P(SimdTest, IsCompiledForTheSetThatItIsCalled) {
  const int lanes = GetParam() == "avx512_f32" ? 16 : GetParam() == "avx2" ? 8 : 4;
  EXPECT_EQ(simd_.native_lanes, lanes);
}

TEST_P(SimdTest, ExpOfNegativeIsWithinFourUlps) {
  ExpectWithin(simd_.exp_of_negative, std::exp, Spread(-87.3f, 0.0f), 4);
  ExpectWithin(simd_.exp_of_negative, std::exp, Spread(-110.0f, -87.3f), 4);
  const float infinity = std::numeric_limits<float>::infinity();
  const float lowest = std::numeric_limits<float>::lowest();
  const std::vector<float> x = {0.0f, -0.0f, -infinity, lowest, std::nanf("")};
  std::vector<float> y(x.size());
  simd_.exp_of_negative(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST_P(SimdTest, ExpOfDifferenceIsWithinItsUlps) {
  for (const float top : {0.0f, 7.3f, -60.0f, 1000.0f}) {
    std::vector<float> x = Spread(-103.0f, 0.0f);
    for (float& difference : x) difference += top;
    std::vector<float> y(x.size());
    simd_.exp_of_difference(x.data(), top, y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double difference = static_cast<double>(x[i]) - static_cast<double>(top);
      ASSERT_LE(UlpsOff(y[i], std::exp(difference)), 4 - 2 * difference + std::abs(top))
          << x[i] << " below " << top;
    }
  }
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const std::vector<float> x = {0.0f, -kInfinity, kLowest, std::nanf("")};
  std::vector<float> y(x.size());
  simd_.exp_of_difference(x.data(), 0.0f, y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]));
  // The maximum of a row that has seen no key yet.
  simd_.exp_of_difference(x.data(), kLowest, y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[1], 0.0f);
}

TEST_P(SimdTest, ExpIsWithinTwoUlps) {
  ExpectWithin(simd_.exp, std::exp, Spread(-87.3f, 88.73f), 2);
  ExpectWithin(simd_.exp, std::exp, Spread(-110.0f, -87.3f), 3);
}

TEST_P(SimdTest, LogIsWithinTwoUlps) {
  ExpectWithin(simd_.log, std::log, Spread(0x1p-149f, std::numeric_limits<float>::max()), 2);
}

TEST_P(SimdTest, SigmoidIsWithinThreeUlps) {
  const auto exact = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  ExpectWithin(simd_.sigmoid, exact, Spread(-87.0f, 1000.0f), 3);
}

TEST_P(SimdTest, TanhIsWithinFourUlps) {
  ExpectWithin(simd_.tanh, std::tanh, Spread(-1000.0f, 1000.0f), 4);
}

TEST_P(SimdTest, ErfIsWithinThreeTenMillionths) {
  const std::vector<float> x = Spread(-20.0f, 20.0f);
  std::vector<float> y(x.size());
  simd_.erf(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], std::erf(double{x[i]}), 3e-7) << x[i];
}

TEST_P(SimdTest, SpecialValues) {
  const std::vector<float> x = {-kInfinity, kInfinity, kNaN, 0.0f, -0.0f, -1.0f, -200.0f, 200.0f};
  std::vector<float> y(x.size());
  const int64_t n = static_cast<int64_t>(x.size());
  simd_.exp(x.data(), y.data(), n);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1.0f);
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_EQ(y[7], kInfinity);

  simd_.log(x.data(), y.data(), n);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], -kInfinity);
  EXPECT_EQ(y[4], -kInfinity);
  EXPECT_TRUE(std::isnan(y[5]));

  for (const auto function : {simd_.tanh, simd_.erf}) {
    function(x.data(), y.data(), n);
    EXPECT_EQ(y[0], -1.0f);
    EXPECT_EQ(y[1], 1.0f);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 0.0f);
    EXPECT_EQ(y[6], -1.0f);
    EXPECT_EQ(y[7], 1.0f);
  }

  simd_.sigmoid(x.data(), y.data(), n);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.5f);
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_EQ(y[7], 1.0f);
}

TEST_P(SimdTest, OfNaNOrZerosMaxAndMinAreTheSecond) {
  constexpr int kCases = 8;
  struct Case {
    float a, b, max, min;
  };
  constexpr Case cases[kCases] = {
      {1.0f, 2.0f, 2.0f, 1.0f},
      {3.0f, -4.0f, 3.0f, -4.0f},
      {kNaN, 1.0f, 1.0f, 1.0f},
      {1.0f, kNaN, kNaN, kNaN},
      {0.0f, -0.0f, -0.0f, -0.0f},
      {-0.0f, 0.0f, 0.0f, 0.0f},
      {kNaN, -kInfinity, -kInfinity, -kInfinity},
      {kInfinity, -kInfinity, kInfinity, -kInfinity},
  };
  // Each case is tested in every lane of a register.
  for (int shift = 0; shift < 16; ++shift) {
    float a[16], b[16], max[16], min[16];
    for (int i = 0; i < 16; ++i) {
      a[i] = cases[(i + shift) % kCases].a;
      b[i] = cases[(i + shift) % kCases].b;
    }
    simd_.max(a, b, max);
    simd_.min(a, b, min);
    for (int i = 0; i < 16; ++i) {
      const Case& expected = cases[(i + shift) % kCases];
      const auto same = [](float x, float y) {
        return std::isnan(y) ? std::isnan(x)
                             : std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
      };
      EXPECT_TRUE(same(max[i], expected.max)) << a[i] << " " << b[i] << " " << max[i];
      EXPECT_TRUE(same(min[i], expected.min)) << a[i] << " " << b[i] << " " << min[i];
    }
  }
}

TEST_P(SimdTest, WidensEvery16BitNumberExactly) {
  constexpr int64_t kCount = 0x10000;
  std::vector<BF16> bf16(kCount);
  std::vector<F16> f16(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    bf16[i].bits = static_cast<uint16_t>(i);
    f16[i].bits = static_cast<uint16_t>(i);
  }
  std::vector<float> wide_bf16(kCount), wide_f16(kCount);
  simd_.widen_bf16(bf16.data(), wide_bf16.data(), kCount);
  simd_.widen_f16(f16.data(), wide_f16.data(), kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(wide_bf16[i]), std::bit_cast<uint32_t>(ToF32(bf16[i]))) << i;
    if (std::isnan(ToF32(f16[i]))) {
      EXPECT_TRUE(std::isnan(wide_f16[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(wide_f16[i]), std::bit_cast<uint32_t>(ToF32(f16[i]))) << i;
    }
  }
}

TEST_P(SimdTest, RoundsToBF16AsTheHostDoes) {
  std::vector<float> x = Spread(-kInfinity, kInfinity);
  for (uint32_t bits : {0x3f808000u, 0x3f818000u, 0x7f7fffffu, 0x7f800000u, 0xff800000u,
                        0x7f800001u, 0x7fffffffu, 0xffc00000u, 0x00008000u, 0x00018000u}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  x.push_back(1.0f);  // an odd count, so the last vector is partial
  std::vector<BF16> y(x.size());
  simd_.round_to_bf16(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i].bits, ToBF16(x[i]).bits) << std::bit_cast<uint32_t>(x[i]);
  }
}

// Rounds every f16 number; the middle between it and the next one, which is a tie and must become
// the even number; and the two floats next to that middle.
TEST_P(SimdTest, RoundsToF16AsTheHostDoes) {
  std::vector<float> x;
  std::vector<uint16_t> expected;
  const auto add = [&](float value, uint32_t bits) {
    for (uint32_t sign : {0u, 0x8000u}) {
      x.push_back(sign == 0 ? value : -value);
      expected.push_back(static_cast<uint16_t>(sign | bits));
    }
  };
  for (uint32_t bits = 0; bits <= 0x7bff; ++bits) {
    const float value = ToF32(F16{static_cast<uint16_t>(bits)});
    const float next = bits < 0x7bff ? ToF32(F16{static_cast<uint16_t>(bits + 1)}) : 65536.0f;
    const float middle = (value + next) / 2;
    add(value, bits);
    add(middle, bits + bits % 2);
    add(std::nextafter(middle, 0.0f), bits);
    add(std::nextafter(middle, kInfinity), bits + 1);
  }
  add(1e6f, 0x7c00);
  add(kInfinity, 0x7c00);
  add(0x1p-149f, 0);
  std::vector<F16> y(x.size());
  simd_.round_to_f16(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i].bits, expected[i]) << x[i];
    ASSERT_EQ(ToF16(x[i]).bits, expected[i]) << x[i];
  }
  const float nan[] = {kNaN, std::bit_cast<float>(0xff800001u)};
  simd_.round_to_f16(nan, y.data(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::isnan(ToF32(y[static_cast<size_t>(i)])));
    EXPECT_EQ(ToF16(nan[i]).bits, y[static_cast<size_t>(i)].bits);
  }
}

TEST_P(SimdTest, ReducesAcrossLanesInTheStatedOrder) {
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = std::ldexp(1.0f + 0.37f * static_cast<float>(i), i % 5);
  float tree[16];
  std::copy(x, x + 16, tree);
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) tree[i] += tree[i + half];
  }
  EXPECT_EQ(simd_.sum(x), tree[0]);
  EXPECT_EQ(simd_.max_lane(x), *std::max_element(x, x + 16));
}

TEST_P(SimdTest, BitsOfAMaskAreInLaneOrder) {
  for (int lane = 0; lane < 16; ++lane) {
    float x[16] = {};
    x[lane] = 2.0f;
    EXPECT_EQ(simd_.above_one(x), 1u << lane);
  }
}

TEST_P(SimdTest, LanesOfBitsAreTheInverseOfBits) {
  for (const uint32_t bits : {0u, 1u, 0x8000u, 0xa5c3u, 0xffffu, 0xffff0000u, 0x12345678u}) {
    float y[16];
    simd_.lanes_of(bits, y);
    for (int lane = 0; lane < 16; ++lane) {
      EXPECT_EQ(y[lane], (bits >> lane & 1) != 0 ? 1.0f : 0.0f) << bits << " lane " << lane;
    }
  }
}

TEST_P(SimdTest, PhiloxIsTheScalarOne) {
  int32_t ids[16], words[16];
  for (uint64_t seed : {0ull, 1ull, 0x0123456789abcdefull, ~0ull}) {
    for (int64_t position : {int64_t{0}, int64_t{77}, int64_t{0x123456789a}}) {
      for (int i = 0; i < 16; ++i) ids[i] = i * 0x01234567;
      simd_.philox_word(seed, position, ids, words);
      for (int i = 0; i < 16; ++i) {
        const auto expected =
            Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                        static_cast<uint32_t>(ids[i]), 0},
                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
        EXPECT_EQ(static_cast<uint32_t>(words[i]), expected[0]) << seed << " " << position;
      }
    }
  }
}

// -log((x + 1/2) / 2^32) keeps its relative precision at both ends of its range, 1e-10 and 22.9.
TEST_P(SimdTest, ExponentialIsWithinSixUlpsOverItsWholeRange) {
  std::vector<uint32_t> words = {0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
  for (int bit = 0; bit < 32; ++bit) {
    for (uint32_t offset : {0u, 1u, 0x35u}) {
      words.push_back((1u << bit) + offset);
      words.push_back(~((1u << bit) + offset));
    }
  }
  for (uint64_t word = 0; word < 0x100000000u; word += 65521) {
    words.push_back(static_cast<uint32_t>(word));
  }
  words.resize(words.size() / 16 * 16);
  double worst = 0;
  for (size_t i = 0; i < words.size(); i += 16) {
    float y[16];
    simd_.exponential(reinterpret_cast<const int32_t*>(&words[i]), y);
    for (int lane = 0; lane < 16; ++lane) {
      const double exact = -std::log((words[i + lane] + 0.5) * 0x1p-32);
      worst = std::max(worst, UlpsOff(y[lane], exact));
    }
  }
  EXPECT_LE(worst, 6);
}

// The instruction sets of this processor that have vectors of their own. (avx512 and amx have those
// of avx512_f32.)
std::vector<std::string> AvailableIsas() {
  std::vector<std::string> isas = {"baseline"};
  if (HasAvx2()) isas.emplace_back("avx2");
  if (HasAvx512F32()) isas.emplace_back("avx512_f32");
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Isa, SimdTest, testing::ValuesIn(AvailableIsas()),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace longstream
