// Products of prefill rows with a bf16 weight: by cuBLASLt in the CUDA library
// (cublaslt_product.cc), by a plain loop in tests/simt, which has no GPU.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_PREFILL_PRODUCT_H_
#define LONGSTREAM_KERNELS_CUDA_GEMM_PREFILL_PRODUCT_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/cuda/gemm/prepared_rows.h"

namespace longstream::cuda {

// out[r, :] = alpha * (rows[r] W^T) + beta * out[r, :] for r in [first_row, rows.num_rows).
struct PrefillProductArgs {
  PreparedRows rows;  // prepared for this weight
  int64_t first_row = 0;
  PackedWeight weight;  // bf16
  float alpha = 1.0f;
  float beta = 0.0f;  // 0: out is not read
  Matrix out;         // [rows.num_rows, n] f32
};

// Returns false, and has done nothing, if cuBLASLt has no algorithm for the shape. The answer
// depends on the shape and on the alignment of `out` alone, so a caller may compute such products
// in another way.
//
// A row's sums have the same bits whatever rows are beside it: the algorithm depends only on the
// weight's shape, on the alignment of `out`, and on the file of choices (algorithm_file.h).
// Products are summed in f32. Thread-safe for distinct streams. The first product with a shape of
// weight that the file does not know measures algorithms for some 100 ms and waits for the stream.
// The first one with a known shape takes some milliseconds more than later ones. Neither may run
// while a stream is captured.
bool PrefillProduct(Stream& stream, const PrefillProductArgs& args);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_PREFILL_PRODUCT_H_
