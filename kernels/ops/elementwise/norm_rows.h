// Norms rows that a projection has computed: a branch before it is added to the residual stream, or
// queries or keys. The norm of queries or keys runs over all heads together, or over each head with
// weights of its own.
//
//   out[r, :] = (accumulate ? out[r, :] : 0) + scale * Norm(in[r, :])
//
// If the norm's size is smaller than a row, the row is divided into parts of that size, and each
// part is normed by itself. A row has the same bits in any batch.
#ifndef LONGSTREAM_KERNELS_OPS_ELEMENTWISE_NORM_ROWS_H_
#define LONGSTREAM_KERNELS_OPS_ELEMENTWISE_NORM_ROWS_H_

#include "kernels/core/matrix.h"
#include "kernels/core/norm.h"
#include "kernels/core/stream.h"

namespace longstream {

struct NormRowsArgs {
  Matrix in;  // [R, n] f32; any row stride
  Norm norm;  // its size divides n; weight and bias are always [n]. REQUIRES: norm.enabled()
  float scale = 1.0f;
  bool accumulate = false;
  Matrix out;  // [R, n] f32; may be `in` itself if accumulate is false
};
using NormRowsFunction = void (*)(Stream& stream, const NormRowsArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ELEMENTWISE_NORM_ROWS_H_
