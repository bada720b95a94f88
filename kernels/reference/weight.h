// Reading the reference library's packed weight: the row-major [n, k] matrix itself.
#ifndef LONGSTREAM_KERNELS_REFERENCE_WEIGHT_H_
#define LONGSTREAM_KERNELS_REFERENCE_WEIGHT_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/matrix.h"

namespace longstream::reference {

// Element `index` of an array of `type`, as f32 (exact).
inline float ElementAt(const void* data, DType type, int64_t index) {
  switch (type) {
    case DType::kF32:
      return static_cast<const float*>(data)[index];
    case DType::kF16:
      return ToF32(static_cast<const F16*>(data)[index]);
    case DType::kBF16:
      return ToF32(static_cast<const BF16*>(data)[index]);
  }
  return 0.0f;
}

inline float WeightAt(const PackedWeight& weight, int64_t output, int64_t input) {
  return ElementAt(weight.data, weight.type, output * weight.k + input);
}

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_WEIGHT_H_
