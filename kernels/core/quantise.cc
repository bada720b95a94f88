// Chooses the scale of a group of weights.
#include "kernels/core/quantise.h"

#include <cmath>
#include <limits>

#include "kernels/core/instruction_set.h"

namespace longstream {
namespace {

// A loop over a group keeps this many partial sums, so that the compiler can vectorise it without
// reordering a sum.
constexpr int64_t kLanes = 8;
static_assert(kGroupInputs % kLanes == 0);

constexpr float kLargestScale = 65504.0f;

// Rounds to the nearest integer, ties to even. REQUIRES: |x| < 2^22
inline float Round(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

float SumOf(const float (&lanes)[kLanes]) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

float Dot(const float* a, const float* b) {
  float sums[kLanes] = {};
  for (int64_t i = 0; i < kGroupInputs; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  return SumOf(sums);
}

float SquaredError(const float* weights, const float* values, float scale) {
  float sums[kLanes] = {};
  for (int64_t i = 0; i < kGroupInputs; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float error = weights[i + lane] - scale * values[i + lane];
      sums[lane] += error * error;
    }
  }
  return SumOf(sums);
}

// values[i] = the integer of the type that is nearest to weights[i] * inverse.
void RoundInto(const ScaleSearch& search, const float* weights, float inverse, float* values) {
  for (int64_t i = 0; i < kGroupInputs; ++i) {
    float x = weights[i] * inverse;
    x = x < search.low ? search.low : x;
    x = x > search.high ? search.high : x;
    values[i] = Round(x);
  }
}

// The search for the best scale of a group of weights, none of which is NaN.
class Search {
 public:
  Search(const ScaleSearch& search, const float* weights) : search_(search), weights_(weights) {}

  // Rounds the weights to integers with the scale 1 / inverse. Computes the scale that fits these
  // integers best (least squares). Then tries two f16 numbers as the scale: the nearest to it, and
  // the next f16.
  void Try(float inverse) {
    float values[kGroupInputs];
    RoundInto(search_, weights_, inverse, values);
    const float squares = Dot(values, values);
    if (squares == 0.0f) return;
    const float best = Dot(weights_, values) / squares;
    const float bounded = std::fmin(std::fmax(best, -kLargestScale), kLargestScale);
    const F16 nearest = ToF16(bounded);
    TryScale(nearest);
    TryScale(F16{static_cast<uint16_t>(nearest.bits + 1)});
  }

  WeightGroup Best() const {
    WeightGroup group{};
    group.scale = scale_;
    for (int64_t i = 0; i < kGroupInputs; ++i) group.values[i] = static_cast<int8_t>(values_[i]);
    return group;
  }

 private:
  void TryScale(F16 candidate) {
    const float scale = ToF32(candidate);
    if (scale == 0.0f || std::isinf(scale)) return;
    float values[kGroupInputs];
    RoundInto(search_, weights_, 1.0f / scale, values);
    const float error = SquaredError(weights_, values, scale);
    if (!(error < error_)) return;
    error_ = error;
    scale_ = candidate;
    for (int64_t i = 0; i < kGroupInputs; ++i) values_[i] = values[i];
  }

  const ScaleSearch search_;
  const float* weights_;
  float error_ = std::numeric_limits<float>::infinity();
  F16 scale_{};
  float values_[kGroupInputs] = {};
};

}  // namespace

WeightGroup QuantiseGroup(DType type, const float* weights, int64_t count) {
  float group[kGroupInputs] = {};
  float largest = 0.0f;
  bool is_number = true;
  for (int64_t i = 0; i < count; ++i) {
    group[i] = weights[i];
    is_number = is_number && std::fabs(weights[i]) <= LargestWeight(type);
    if (std::fabs(weights[i]) > std::fabs(largest)) largest = weights[i];
  }
  if (!is_number) return {F16{0x7e00}, {}};
  if (std::fabs(largest) < kSmallestWeight) return {};
  const ScaleSearch scales = ScaleSearchOf(type);
  Search search(scales, group);
  for (float level = scales.first_level; level <= scales.last_level; level += scales.level_step) {
    if (scales.both_signs) search.Try(-level / largest);
    search.Try(level / largest);
  }
  return search.Best();
}

namespace cpu {
namespace baseline {
void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups);
}
namespace avx2 {
void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups);
}
namespace avx512_f32 {
void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups);
}
}  // namespace cpu

void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups) {
  static const auto quantise = HasAvx512F32() ? cpu::avx512_f32::QuantiseGroups
                               : HasAvx2()    ? cpu::avx2::QuantiseGroups
                                              : cpu::baseline::QuantiseGroups;
  quantise(type, weights, count, groups);
}

}  // namespace longstream
