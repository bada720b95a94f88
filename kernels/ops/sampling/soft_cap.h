// Bounds numbers in place. The smooth form is x = cap * tanh(x / cap), as Gemma 2 bounds its
// logits. The other form cuts off, x = min(max(x, -cap), cap), as MPT does with queries, keys and
// values. A NaN stays NaN.
#ifndef LONGSTREAM_KERNELS_OPS_SAMPLING_SOFT_CAP_H_
#define LONGSTREAM_KERNELS_OPS_SAMPLING_SOFT_CAP_H_

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct SoftCapArgs {
  Matrix x;          // [R, n] f32; any row stride
  float cap = 1.0f;  // > 0
  bool cut = false;
};
using SoftCapFunction = void (*)(Stream& stream, const SoftCapArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_SAMPLING_SOFT_CAP_H_
