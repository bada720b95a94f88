// Causal softmax attention over the last `window` tokens, the current one included.
//
//   out[t, h] = sum_j softmax_j(scale * q[t, h] . k_j) v_j,   max(0, p(t) - window + 1) <= j <=
//   p(t)
//
// Keys of earlier steps are read from the ring, those of this step from k and v, so a piece of a
// prefill may be longer than the ring. RingWrite stores the step's rows afterwards.
#ifndef LONGSTREAM_KERNELS_OPS_WINDOW_ATTENTION_H_
#define LONGSTREAM_KERNELS_OPS_WINDOW_ATTENTION_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct WindowAttentionArgs {
  BatchLayout batch;
  int32_t num_heads = 0;
  int32_t window = 0;  // REQUIRES: window <= ring.slots
  float scale = 1.0f;
  Matrix q;  // [T, H * D]
  Matrix k;  // [T, H_kv * D] of the ring's type, rotated
  Matrix v;  // [T, H_kv * D] of the ring's type
  RingCache ring;
  Matrix out;  // [T, H * D]
};
using WindowAttentionFunction = void (*)(Stream& stream, const WindowAttentionArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_WINDOW_ATTENTION_H_
