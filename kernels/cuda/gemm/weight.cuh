// The layout of a packed weight on the device: row-major, k contiguous, rows 16-byte aligned. A
// warp can read it along a row for one token, mma takes it as its column-major B, and cuBLASLt as a
// transposed matrix.
//
// Rows of int8 and int4 weights have a multiple of 128 inputs, which are four groups. The scales,
// f16 [n, stride / 32], follow the last row. mma multiplies one group at a time, with four lanes
// for each row; lane t must have inputs 8 t ... 8 t + 7 of the group. So the bytes are in another
// order than the inputs: the four lanes read 64 bytes of a row at a time, 16 bytes each, and lane t
// then has its inputs of two groups (int8) or of four groups (int4):
//
//   int8  128 bytes: [group / 2][t][group % 2][8]
//   int4   64 bytes: [t][group][4], the first four inputs in the low halves of the bytes
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_WEIGHT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_WEIGHT_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/quantise.h"

namespace longstream::cuda {

// The groups, and inputs, of an int8 or int4 row that four lanes read at a time.
inline constexpr int kStepGroups = 4;
inline constexpr int kStepOfGroups = kStepGroups * static_cast<int>(kGroupInputs);

// Elements from one row to the next.
__host__ __device__ constexpr int64_t WeightStride(DType type, int64_t k) {
  const int64_t multiple = IsQuantised(type) ? kStepOfGroups : type == DType::kF32 ? 4 : 8;
  return (k + multiple - 1) / multiple * multiple;
}

// Bytes of a row of this stride, without its scales.
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

// The offset in a row of the byte of an input. For int4, input % 8 / 4 says which half of the byte.
__host__ __device__ constexpr int64_t QuantisedByte(DType type, int64_t input) {
  const int64_t step = input / kStepOfGroups;
  const int64_t group = input / kGroupInputs % kStepGroups;
  const int64_t lane = input % kGroupInputs / 8;
  if (type == DType::kI4) return step * 64 + lane * 16 + group * 4 + input % 4;
  return step * 128 + group / 2 * 64 + lane * 16 + group % 2 * 8 + input % 8;
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_WEIGHT_CUH_
