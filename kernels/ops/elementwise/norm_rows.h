// Norms behind a projection: of a branch on its way into the residual stream, and of queries or
// keys over all heads together, or over each with weights of its own.
//
//   out[r, :] = (accumulate ? out[r, :] : 0) + scale * Norm(in[r, :])
//
// where a norm of fewer elements than a row has is that of each such part of the row by itself. A
// row is the same to the bit in any batch.
#ifndef LONGSTREAM_KERNELS_OPS_ELEMENTWISE_NORM_ROWS_H_
#define LONGSTREAM_KERNELS_OPS_ELEMENTWISE_NORM_ROWS_H_

#include "kernels/core/matrix.h"
#include "kernels/core/norm.h"
#include "kernels/core/stream.h"

namespace longstream {

struct NormRowsArgs {
  Matrix in;  // [R, n] f32; R of any step
  Norm norm;  // its size divides n; weight and bias are [n] all the same. REQUIRES: norm.enabled()
  float scale = 1.0f;
  bool accumulate = false;
  Matrix out;  // [R, n] f32; may be `in` itself where it is not accumulated
};
using NormRowsFunction = void (*)(Stream& stream, const NormRowsArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ELEMENTWISE_NORM_ROWS_H_
