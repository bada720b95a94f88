// What the kernels that multiply rows with weights share: operands, and what becomes of a sum.
//
// A kernel calls epilogue(row, column, sums) once for each output, on one thread: sums[i] =
// rows[row] . weights[i][column], row and column as in the whole matrices.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace longstream::cuda {

inline constexpr int kTokenTile = 8;    // columns of mma's B
inline constexpr int kOutputTile = 16;  // rows of mma's A

// 16 bytes of a weight: they pass through L1 without staying, so that the rows do.
__device__ __forceinline__ uint4 LoadOnce(const void* from) {
#ifdef __CUDA_ARCH__
  uint4 words;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
#else
  return *static_cast<const uint4*>(from);
#endif
}

// One weight, or two of one shape and type whose sums one epilogue takes.
template <int kWeights>
struct ProductOperands {
  const void* rows = nullptr;     // [*, stride]: PreparedRows
  const float* scales = nullptr;  // [*, stride / 32], of the rows of int8
  int64_t first_row = 0;          // the product is of the rows
  int64_t num_rows = 0;           // [first_row, first_row + num_rows)
  const void* weights[kWeights];  // [n, stride]: PackedWeight
  int64_t n = 0;
  int64_t stride = 0;  // in elements; what lies behind k is zero on both sides
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_PRODUCT_CUH_
