// The activation of a gated attention unit (GAU; Hua et al. 2022), between its projection [u v z]
// and its attention:
//
//   v[t, :] <- silu(v[t, :]),                silu(x) = x sigmoid(x)
//   q[t, :] = q_scale * silu(z[t, :]) + q_offset
//   k[t, :] = k_scale * silu(z[t, :]) + k_offset
//
// u stays as it is: the output projection uses it as the logits of its gate (linear.h).
#ifndef LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GAU_ACTIVATE_H_
#define LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GAU_ACTIVATE_H_

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct GauActivateArgs {
  Matrix v;                         // [T, e] updated in place
  Matrix z;                         // [T, s]
  const float* q_scale = nullptr;   // [s] f32
  const float* q_offset = nullptr;  // [s]
  const float* k_scale = nullptr;   // [s]
  const float* k_offset = nullptr;  // [s]
  Matrix q;                         // [T, s]; may be z
  Matrix k;                         // [T, s]
};
using GauActivateFunction = void (*)(Stream& stream, const GauActivateArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GAU_ACTIVATE_H_
