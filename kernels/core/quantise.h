// Weights in 8 and 4 bits: each group of 32 inputs of an output shares one scale.
//
// A group of int8 takes 32 bytes and 2 for its scale, which is 8.5 bits per weight. A group of int4
// takes 16 bytes and 2 for its scale, which is 4.5 bits per weight.
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

// Parameters of the search for a group's scale. A level is the group's largest weight divided by
// the scale, before it is cut off at the range of integers. For each level, the search rounds the
// weights to integers and then tries two scales: the one with the least squared error for these
// integers, and the next f16. The vectorised search is the same (lanes/quantise_lanes.h).
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

// If all weights of a group are below this magnitude, the f16 nearest to their scale is 0.
inline constexpr float kSmallestWeight = 0x1p-25f;

// Quantises `count` <= 32 weights to a group; zeros fill the rest of it. Of a fixed set of scales,
// the group gets the one with the least squared error. Equal weights give equal groups on every
// processor. If a weight is NaN or larger than LargestWeight, the scale is NaN, and so is every
// product with the group.
WeightGroup QuantiseGroup(DType type, const float* weights, int64_t count);

// Quantises `count` groups of weights [count, 32] as QuantiseGroup does. Works on as many groups at
// a time as a vector register has lanes.
void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_QUANTISE_H_
