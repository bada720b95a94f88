// What the kernels that multiply rows with weights share: operands, and what becomes of a sum.
//
// A kernel calls epilogue(row, column, sums) once for each output, on one thread: sums[i] =
// rows[row] . weights[i][column], row and column as in the whole matrices.
#ifndef LONGSTREAM_KERNELS_CUDA_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace longstream::cuda {

// One weight, or two of one shape and type whose sums one epilogue takes.
template <int kWeights>
struct ProductOperands {
  const void* rows = nullptr;     // [*, stride]: PreparedRows
  int64_t first_row = 0;          // the product is of the rows
  int64_t num_rows = 0;           // [first_row, first_row + num_rows)
  const void* weights[kWeights];  // [n, stride]: PackedWeight
  int64_t n = 0;
  int64_t stride = 0;  // in elements; what lies behind k is zero on both sides
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRODUCT_CUH_
