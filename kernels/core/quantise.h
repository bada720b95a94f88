// Weights in 8 and 4 bits: each group of 32 inputs of an output shares one scale.
//
// A group takes 32 bytes (int8) or 16 bytes (int4), and 2 for its scale: 8.5 or 4.5 bits per
// weight.
#ifndef LONGSTREAM_KERNELS_CORE_QUANTISE_H_
#define LONGSTREAM_KERNELS_CORE_QUANTISE_H_

#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

inline constexpr int64_t kGroupInputs = 32;

// The number of groups for k inputs; the last group is padded with zeros.
constexpr int64_t NumGroups(int64_t k) { return (k + kGroupInputs - 1) / kGroupInputs; }

// Input i of the group is scale * values[i].
struct WeightGroup {
  F16 scale;                    // may be negative
  int8_t values[kGroupInputs];  // int8: -127 ... 127; int4: -8 ... 7
};

// The largest magnitude that a weight may have: the largest f16 scale times the largest integer.
constexpr float LargestWeight(DType type) { return 65504.0f * (type == DType::kI8 ? 127 : 7); }

// Parameters of the search for a group's scale. A level is the value that the group's largest
// weight gets in units of the scale, before it is cut to the range of integers. For each level, the
// weights are rounded to integers, and two scales are tried for these: the one with the least
// squared error, and its neighbour in f16. The vectorised search is the same
// (lanes/quantise_lanes.h).
struct ScaleSearch {
  float low, high;                // the range of the type's integers
  float first_level, last_level;  // a level beyond the range cuts off the largest weight
  float level_step;
  bool both_signs;  // try -level before level: the negative side has one integer more
};
constexpr ScaleSearch ScaleSearchOf(DType type) {
  return type == DType::kI8 ? ScaleSearch{-127.0f, 127.0f, 127.0f, 127.0f, 1.0f, false}
                            : ScaleSearch{-8.0f, 7.0f, 6.0f, 9.5f, 0.25f, true};
}

// The nearest f16 scale of weights below this magnitude is 0.
inline constexpr float kSmallestWeight = 0x1p-25f;

// Quantises `count` <= 32 weights, followed by zeros, to the group with the least squared error
// among a fixed set of scales. Equal weights give equal groups on every processor. If a weight is
// NaN or larger than LargestWeight, the scale is NaN, and so is every product with the group.
WeightGroup QuantiseGroup(DType type, const float* weights, int64_t count);

// The same for `count` groups of weights, [count, 32]. Works on as many groups at a time as a
// vector register has lanes.
void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_QUANTISE_H_
