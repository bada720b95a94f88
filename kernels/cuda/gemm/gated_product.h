// Products of rows with two weights, of which the first gates the second: the first half of a gated
// MLP.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_GATED_PRODUCT_H_
#define LONGSTREAM_KERNELS_CUDA_GEMM_GATED_PRODUCT_H_

#include "kernels/core/stream.h"
#include "kernels/ops/gemm/linear.h"

namespace longstream::cuda {

// out[r, :] = act(h[r] W^T + bias) * (h[r] W_up^T + up_bias)
//
// REQUIRES: args.IsServed(), args.up.n > 0, a workspace of LinearWorkspace(R, k, n)
void GatedProduct(Stream& stream, const LinearArgs& args);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_GATED_PRODUCT_H_
