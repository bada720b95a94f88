// Shared parts of the kernels that multiply rows with weights: the operands, and the epilogue.
//
// A kernel calls epilogue(row, column, sums) once for each output, on one thread. sums[i] is
// rows[row] . weights[i][column]. Row and column are those of the whole matrices.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace longstream::cuda {

inline constexpr int kTokenTile = 8;    // columns of mma's B
inline constexpr int kOutputTile = 16;  // rows of mma's A

// Loads 16 bytes of a weight without keeping them in L1, which leaves L1 to the rows.
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

// The operands of a product with one weight, or with two of one shape and type whose sums go to one
// epilogue.
template <int kWeights>
struct ProductOperands {
  const void* rows = nullptr;     // [*, stride]: PreparedRows
  const float* scales = nullptr;  // scales of int8 rows [*, stride / 32]
  int64_t first_row = 0;          // the first row that the product computes
  int64_t num_rows = 0;           // the number of rows that the product computes
  const void* weights[kWeights];  // [n, stride]: PackedWeight
  int64_t n = 0;
  int64_t stride = 0;  // in elements; rows and weights are zero beyond k
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_PRODUCT_CUH_
