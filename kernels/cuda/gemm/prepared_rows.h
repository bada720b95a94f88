// The rows that a projection multiplies with its weight, made once for all outputs. Of a few decode
// rows the blocks of the product make them instead (fused_product.cuh), with the same bits.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_PREPARED_ROWS_H_
#define LONGSTREAM_KERNELS_CUDA_GEMM_PREPARED_ROWS_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/gemm/norm.h"

namespace longstream::cuda {

// What h is made of: h[r] = (Norm(x[r]) + addend[addend_rows[r]]) * sigmoid(gate[r]),
// or the same with silu(x) = x sigmoid(x).
struct RowSource {
  Matrix x;
  int64_t num_rows = 0;
  Norm norm;
  Matrix addend;  // data nullptr: none
  const int32_t* addend_rows = nullptr;
  Matrix gate;  // data nullptr: none
  bool silu_gate = false;
};

// [num_rows, stride] in the stream's workspace: bf16 for bf16 weights, int8 with scales for int8
// and int4, f32 for others. The stride is that of the weight (weight.cuh), and rows end in zeros as
// the weight's do; rows of int8 are in the order of int8 weights.
struct PreparedRows {
  void* data = nullptr;
  float* scales = nullptr;  // [num_rows, stride / 32], of int8
  int64_t num_rows = 0;
  int64_t stride = 0;  // in elements
};

// REQUIRES: the workspace has NormProjectWorkspace(num_rows, weight.k) bytes.
PreparedRows PrepareRows(Stream& stream, const RowSource& source, const PackedWeight& weight);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_PREPARED_ROWS_H_
