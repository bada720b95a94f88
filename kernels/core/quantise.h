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

// The group whose squared error is least among a fixed set of scales; count <= 32 weights, those
// behind are zero. Equal weights give equal groups on every processor. Where one is NaN or larger
// than LargestWeight, the scale is NaN, so that every product with the group is.
WeightGroup QuantiseGroup(DType type, const float* weights, int64_t count);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_QUANTISE_H_
