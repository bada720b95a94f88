// The rows that a product multiplies with its weight, prepared once for all outputs. If there are
// only a few decode rows, the blocks of the product prepare them instead, with the same bits
// (fused_product.cuh).
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_PREPARED_ROWS_H_
#define LONGSTREAM_KERNELS_CUDA_GEMM_PREPARED_ROWS_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/gemm/linear.h"

namespace longstream::cuda {

// The first num_rows of LinearRows.
struct RowSource : LinearRows {
  int64_t num_rows = 0;
};

// Prepared rows [num_rows, stride] in the stream's workspace: bf16 for bf16 weights, int8 with
// scales for int8 and int4, f32 for others. The weight has the same stride (weight.cuh). Rows end
// in zeros as the weight's rows do. The inputs of int8 rows have the order of int8 weights.
struct PreparedRows {
  void* data = nullptr;
  float* scales = nullptr;  // scales of int8 rows [num_rows, stride / 32]
  int64_t num_rows = 0;
  int64_t stride = 0;  // in elements
};

// REQUIRES: the workspace has LinearWorkspace(num_rows, weight.k) bytes.
PreparedRows PrepareRows(Stream& stream, const RowSource& source, const PackedWeight& weight);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_PREPARED_ROWS_H_
