// Reads the reference library's packed weight. It is the row-major matrix [n, k] itself or, for
// int8 and int4, the row-major matrix of its groups [n, ceil(k / 32)].
#ifndef LONGSTREAM_KERNELS_REFERENCE_GEMM_WEIGHT_H_
#define LONGSTREAM_KERNELS_REFERENCE_GEMM_WEIGHT_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/matrix.h"
#include "kernels/core/quantise.h"

namespace longstream::reference {

// Element `index` of an array of `type` as f32, which is exact. REQUIRES: !IsQuantised(type)
inline float ElementAt(const void* data, DType type, int64_t index) {
  switch (type) {
    case DType::kF32:
      return static_cast<const float*>(data)[index];
    case DType::kF16:
      return ToF32(static_cast<const F16*>(data)[index]);
    case DType::kBF16:
      return ToF32(static_cast<const BF16*>(data)[index]);
    case DType::kI8:
    case DType::kI4:
      break;
  }
  return 0.0f;
}

// One number of a weight as f32. This is exact: a number of an int8 or int4 weight is an f16 times
// an integer of at most 8 bits.
inline float WeightAt(const PackedWeight& weight, int64_t output, int64_t input) {
  if (IsQuantised(weight.type)) {
    const int64_t index = output * NumGroups(weight.k) + input / kGroupInputs;
    const WeightGroup& group = static_cast<const WeightGroup*>(weight.data)[index];
    return ToF32(group.scale) * static_cast<float>(group.values[input % kGroupInputs]);
  }
  return ElementAt(weight.data, weight.type, output * weight.k + input);
}

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_GEMM_WEIGHT_H_
