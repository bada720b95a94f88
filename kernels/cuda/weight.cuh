// The layout of a packed weight on the device: row-major, k contiguous, rows 16-byte aligned. That
// is what a warp reads along a row for one token, what mma takes as its column-major B, and what
// cuBLASLt takes as a transposed matrix.
#ifndef LONGSTREAM_KERNELS_CUDA_WEIGHT_CUH_
#define LONGSTREAM_KERNELS_CUDA_WEIGHT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/matrix.h"

namespace longstream::cuda {

// Elements from a row to the next.
__host__ __device__ constexpr int64_t WeightStride(DType type, int64_t k) {
  const int64_t per_16_bytes = type == DType::kF32 ? 4 : 8;
  return (k + per_16_bytes - 1) / per_16_bytes * per_16_bytes;
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_WEIGHT_CUH_
