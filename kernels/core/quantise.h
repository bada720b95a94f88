// Weights in 8 and 4 bits: groups of 32 inputs of an output, which share a scale.
//
// A group takes 32 bytes (int8) or 16 (int4) and the 2 of its scale: 8.5 and 4.5 bits a weight.
#ifndef LONGSTREAM_KERNELS_CORE_QUANTISE_H_
#define LONGSTREAM_KERNELS_CORE_QUANTISE_H_

#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

inline constexpr int64_t kGroupInputs = 32;

// Groups of k inputs; the last is filled up with zeros.
constexpr int64_t NumGroups(int64_t k) { return (k + kGroupInputs - 1) / kGroupInputs; }

// Input i of the group is scale * values[i].
struct WeightGroup {
  F16 scale;                    // of either sign
  int8_t values[kGroupInputs];  // int8: -127 ... 127; int4: -8 ... 7
};

// The largest magnitude that a weight of the type may have.
constexpr float LargestWeight(DType type) { return 65504.0f * (type == DType::kI8 ? 127 : 7); }

// The scales that are tried for a group. A level is the integer that its largest weight would
// become, were there no end to them; of the integers that this gives, tried are the scale with the
// least squared error and the next one in f16. Vectors search the same (lanes/quantise_lanes.h).
struct ScaleSearch {
  float low, high;                // the integers of the type
  float first_level, last_level;  // beyond `low` the largest weight is cut off
  float level_step;
  bool both_signs;  // before each level its negative: the largest weight on the longer side
};
constexpr ScaleSearch ScaleSearchOf(DType type) {
  return type == DType::kI8 ? ScaleSearch{-127.0f, 127.0f, 127.0f, 127.0f, 1.0f, false}
                            : ScaleSearch{-8.0f, 7.0f, 6.0f, 9.5f, 0.25f, true};
}

// Below it no f16 scale but 0 is near.
inline constexpr float kSmallestWeight = 0x1p-25f;

// The group whose squared error is least among a fixed set of scales; count <= 32 weights, those
// behind are zero. Equal weights give equal groups on every processor. Where one is NaN or larger
// than LargestWeight, the scale is NaN, so that every product with the group is.
WeightGroup QuantiseGroup(DType type, const float* weights, int64_t count);

// The same for `count` groups, weights [count][32], as many at a time as a register of the
// processor has lanes.
void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_QUANTISE_H_
