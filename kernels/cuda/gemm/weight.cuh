// The layout of a packed weight on the device: row-major, k contiguous, rows 16-byte aligned. That
// is what a warp reads along a row for one token, what mma takes as its column-major B, and what
// cuBLASLt takes as a transposed matrix.
//
// int8 and int4: rows of a multiple of 128 inputs (four groups), and behind all rows the scales,
// f16 [n, stride / 32]. Four lanes read 64 bytes of a row at a time, and lane t of them finds there
// inputs 8 t ... 8 t + 7 of each of two groups (int8) or four (int4), as mma needs all four lanes
// for one group:
//
//   int8  128 bytes: [group / 2][t][group % 2][8]
//   int4   64 bytes: [t][group][4], in the low halves of the bytes the first four inputs
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_WEIGHT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_WEIGHT_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/quantise.h"

namespace longstream::cuda {

// What four lanes take at a time of a row of int8 or int4.
inline constexpr int kStepGroups = 4;
inline constexpr int kStepOfGroups = kStepGroups * static_cast<int>(kGroupInputs);

// Elements from a row to the next.
__host__ __device__ constexpr int64_t WeightStride(DType type, int64_t k) {
  const int64_t multiple = IsQuantised(type) ? kStepOfGroups : type == DType::kF32 ? 4 : 8;
  return (k + multiple - 1) / multiple * multiple;
}

// Bytes of a row of that stride, without its scales.
__host__ __device__ constexpr int64_t RowBytes(DType type, int64_t stride) {
  if (type == DType::kI4) return stride / 2;
  return type == DType::kI8 ? stride : stride * static_cast<int64_t>(SizeOf(type));
}

// REQUIRES: IsQuantised(type)
__host__ __device__ inline const F16* ScalesOf(const void* weight, DType type, int64_t n,
                                               int64_t stride) {
  return reinterpret_cast<const F16*>(static_cast<const std::byte*>(weight) +
                                      n * RowBytes(type, stride));
}

// Where in a row the byte of an input is; of int4, the half of it that input % 8 / 4 says.
__host__ __device__ constexpr int64_t QuantisedByte(DType type, int64_t input) {
  const int64_t step = input / kStepOfGroups;
  const int64_t group = input / kGroupInputs % kStepGroups;
  const int64_t lane = input % kGroupInputs / 8;
  if (type == DType::kI4) return step * 64 + lane * 16 + group * 4 + input % 4;
  return step * 128 + group / 2 * 64 + lane * 16 + group % 2 * 8 + input % 8;
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_WEIGHT_CUH_
