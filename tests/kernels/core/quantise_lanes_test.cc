// On every instruction set, QuantiseLanes must give the groups of QuantiseGroup, bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/instruction_set.h"
#include "kernels/core/quantise.h"
#include "tests/kernels/cpu/simd_functions.h"

namespace longstream {
namespace {

// Makes random weights of one group. A number names the kind of weights.
class Groups {
 public:
  static constexpr int kNumKinds = 9;

  std::vector<float> Make(DType type, int kind) {
    std::vector<float> weights(kGroupInputs, 0.0f);
    const float scale = std::ldexp(1.0f, Integer(-30, 20));
    switch (kind) {
      case 0:  // f32 checkpoints
        for (float& weight : weights) weight = normal_(engine_) * scale;
        break;
      case 1:  // most checkpoints: bf16
        for (float& weight : weights) weight = ToF32(ToBF16(normal_(engine_) * 0.02f));
        break;
      case 2:  // the last group of a row: zeros follow its weights
        for (int i = Integer(1, 31); i >= 0; --i) weights[Index(i)] = normal_(engine_) * scale;
        break;
      case 3:  // one or two weights, which many scales fit without an error
        for (int i = Integer(1, 2); i > 0; --i) weights[Index(Integer(0, 31))] = scale;
        break;
      case 4:  // few magnitudes, which many scales fit with the same error
        for (float& weight : weights) weight = static_cast<float>(Integer(-8, 8)) * scale;
        break;
      case 5:  // zeros of both signs, subnormals
        for (float& weight : weights) weight = static_cast<float>(Integer(-3, 3)) * 0x1p-149f;
        if (Integer(0, 1) == 0) weights.assign(kGroupInputs, -0.0f);
        break;
      case 6:  // weights around the smallest f16
        for (float& weight : weights) weight = normal_(engine_) * 0x1p-25f;
        break;
      case 7:  // weights up to the largest that has a scale
        for (float& weight : weights) weight = std::sin(normal_(engine_)) * LargestWeight(type);
        weights[Index(Integer(0, 31))] = LargestWeight(type);
        break;
      default: {  // one weight that has no scale
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        const float bad[] = {std::nanf(""), kInfinity, -kInfinity,
                             std::nextafter(LargestWeight(type), kInfinity)};
        for (float& weight : weights) weight = normal_(engine_) * scale;
        weights[Index(Integer(0, 31))] = bad[Integer(0, 3)];
      }
    }
    return weights;
  }

  int Integer(int low, int high) { return std::uniform_int_distribution(low, high)(engine_); }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  std::mt19937 engine_{1};
  std::normal_distribution<float> normal_;
};

class QuantiseLanesTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "baseline") simd_ = cpu::baseline::GetSimdFunctions();
    if (GetParam() == "avx2") simd_ = cpu::avx2::GetSimdFunctions();
    if (GetParam() == "avx512_f32") simd_ = cpu::avx512_f32::GetSimdFunctions();
  }

  // `kinds` names the kind of each group.
  void ExpectSameAsScalar(DType type, const std::vector<int>& kinds) {
    std::vector<float> weights;
    std::vector<WeightGroup> actual(kinds.size());
    for (const int kind : kinds) {
      const std::vector<float> group = groups_.Make(type, kind);
      weights.insert(weights.end(), group.begin(), group.end());
    }
    simd_.quantise(type, weights.data(), static_cast<int64_t>(kinds.size()), actual.data());
    for (size_t i = 0; i < kinds.size(); ++i) {
      const WeightGroup expected =
          QuantiseGroup(type, weights.data() + kGroupInputs * i, kGroupInputs);
      ASSERT_EQ(actual[i].scale.bits, expected.scale.bits)
          << NameOf(type) << ", group " << i << ", kind " << kinds[i];
      ASSERT_EQ(std::memcmp(actual[i].values, expected.values, kGroupInputs), 0)
          << NameOf(type) << ", group " << i << ", kind " << kinds[i];
    }
  }

  SimdFunctions simd_;
  Groups groups_;
};

TEST_P(QuantiseLanesTest, GroupsOfOneKind) {
  for (DType type : {DType::kI8, DType::kI4}) {
    for (int kind = 0; kind < Groups::kNumKinds; ++kind) {
      const std::vector<int> kinds(static_cast<size_t>(simd_.native_lanes), kind);
      for (int turn = 0; turn < 200; ++turn) ExpectSameAsScalar(type, kinds);
    }
  }
}

// A group does not depend on the kinds or on the number of its neighbours.
TEST_P(QuantiseLanesTest, GroupsOfAllKindsSideBySide) {
  for (DType type : {DType::kI8, DType::kI4}) {
    for (int turn = 0; turn < 1000; ++turn) {
      std::vector<int> kinds(static_cast<size_t>(groups_.Integer(1, 2 * simd_.native_lanes)));
      for (int& kind : kinds) kind = groups_.Integer(0, Groups::kNumKinds - 1);
      ExpectSameAsScalar(type, kinds);
    }
  }
}

// The instruction sets of this processor that have vectors of their own. (avx512 and amx have those
// of avx512_f32.)
std::vector<std::string> AvailableIsas() {
  std::vector<std::string> isas = {"baseline"};
  if (HasAvx2()) isas.emplace_back("avx2");
  if (HasAvx512F32()) isas.emplace_back("avx512_f32");
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Isa, QuantiseLanesTest, testing::ValuesIn(AvailableIsas()),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace longstream
