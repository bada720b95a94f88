// Groups of weights in 8 and 4 bits: how close they are to the weights, and which have no scale.
#include "kernels/core/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace longstream {
namespace {

double SquaredError(const WeightGroup& group, const std::vector<float>& weights) {
  double error = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double difference = double{ToF32(group.scale)} * group.values[i] - weights[i];
    error += difference * difference;
  }
  return error;
}

// The squared error of quantising by the largest magnitude: it becomes `levels`, and the scale is
// not rounded.
double SquaredErrorOfMax(const std::vector<float>& weights, double levels) {
  double max = 0;
  for (const float weight : weights) max = std::max(max, std::abs(double{weight}));
  double error = 0;
  for (const float weight : weights) {
    const double difference = std::nearbyint(weight / max * levels) * max / levels - weight;
    error += difference * difference;
  }
  return error;
}

class QuantiseTest : public testing::TestWithParam<DType> {
 protected:
  std::vector<float> Normals(size_t count, float scale) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(count);
    for (float& value : values) value = normal(engine_);
    return values;
  }
  WeightGroup Quantise(const std::vector<float>& weights) const {
    return QuantiseGroup(GetParam(), weights.data(), static_cast<int64_t>(weights.size()));
  }
  bool is_int8() const { return GetParam() == DType::kI8; }

  std::mt19937 engine_{1};
};

TEST_P(QuantiseTest, ValuesAreInRangeAndNear) {
  const int low = is_int8() ? -127 : -8, high = is_int8() ? 127 : 7;
  for (size_t count = 1; count <= 32; ++count) {
    // f16 scales below 6e-5 are subnormal, so they have a coarse resolution.
    for (const float scale : {1e-4f, 0.02f, 1.0f, 1e4f}) {
      const std::vector<float> weights = Normals(count, scale);
      const WeightGroup group = Quantise(weights);
      const float step = std::abs(ToF32(group.scale));
      for (size_t i = 0; i < 32; ++i) {
        EXPECT_GE(group.values[i], low);
        EXPECT_LE(group.values[i], high);
        if (i >= count) {
          EXPECT_EQ(group.values[i], 0);
        } else if (is_int8()) {
          // The error is at most half a step. At the largest weight, the error of the scale is
          // added.
          EXPECT_NEAR(ToF32(group.scale) * group.values[i], weights[i], 0.6f * step)
              << count << " weights of " << scale;
        }
      }
    }
  }
}

// Summed over many groups, the error of the search must not exceed that of quantising by the
// largest magnitude (SquaredErrorOfMax). For int4 it must be smaller: the search uses a 16th value
// (-8), and it tries scales that cut off the largest weight.
TEST_P(QuantiseTest, ErrorIsBelowThatOfTheLargestMagnitudeAsScale) {
  double error = 0, plain = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<float> weights = Normals(32, 0.05f);
    error += SquaredError(Quantise(weights), weights);
    plain += SquaredErrorOfMax(weights, is_int8() ? 127 : 7);
  }
  EXPECT_LE(error, (is_int8() ? 1.001 : 0.75) * plain) << error / plain;
}

TEST_P(QuantiseTest, ExactWhereTheWeightsAreMultiplesOfAScale) {
  std::vector<float> weights(32);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = 0.25f * static_cast<float>(i % 15) - 1.75f;
  weights[0] = is_int8() ? -127 * 0.25f : -8 * 0.25f;
  EXPECT_EQ(SquaredError(Quantise(weights), weights), 0);
  for (float& weight : weights) weight = -weight;
  EXPECT_EQ(SquaredError(Quantise(weights), weights), 0);
}

TEST_P(QuantiseTest, ManyGroupsAreThoseOfOneAtATime) {
  const std::vector<float> weights = Normals(21 * 32, 0.02f);
  std::vector<WeightGroup> groups(21);
  QuantiseGroups(GetParam(), weights.data(), 21, groups.data());
  for (size_t i = 0; i < groups.size(); ++i) {
    const WeightGroup one = QuantiseGroup(GetParam(), weights.data() + 32 * i, 32);
    EXPECT_EQ(groups[i].scale.bits, one.scale.bits);
    EXPECT_EQ(std::memcmp(groups[i].values, one.values, sizeof(one.values)), 0);
  }
}

TEST_P(QuantiseTest, ZerosAndWhatIsTooSmall) {
  for (const float tiny : {0.0f, -0.0f, 1e-40f, 0x1p-26f}) {
    const WeightGroup group = Quantise(std::vector<float>(32, tiny));
    EXPECT_EQ(ToF32(group.scale), 0.0f);
    for (const int8_t value : group.values) EXPECT_EQ(value, 0);
  }
}

TEST_P(QuantiseTest, WhatHasNoScaleIsNaN) {
  const float largest = LargestWeight(GetParam());
  for (const float bad : {NAN, INFINITY, -INFINITY, std::nextafter(largest, INFINITY)}) {
    std::vector<float> weights(32, 1.0f);
    weights[31] = bad;
    EXPECT_TRUE(std::isnan(ToF32(Quantise(weights).scale))) << bad;
  }
  for (const float sign : {-1.0f, 1.0f}) {
    std::vector<float> weights(32, 0.0f);
    weights[5] = sign * largest;
    const WeightGroup group = Quantise(weights);
    EXPECT_TRUE(std::isfinite(ToF32(group.scale)));
    EXPECT_EQ(ToF32(group.scale) * group.values[5], weights[5]);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QuantiseTest, testing::Values(DType::kI8, DType::kI4),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace longstream
