// Causal softmax attention over the last `window` tokens, the current one included.
//
//   out[t, h] = sum_j softmax_j(scale * q[t, h] . k_j) v_j,   max(0, p(t) - window + 1) <= j <=
//   p(t)
//
// Keys of earlier steps are read from the ring, those of this step from k and v, so a piece of a
// prefill may be longer than the ring. RingWrite stores the step's rows afterwards.
#ifndef LONGSTREAM_KERNELS_OPS_ATTENTION_WINDOW_ATTENTION_H_
#define LONGSTREAM_KERNELS_OPS_ATTENTION_WINDOW_ATTENTION_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/attention/paged_attention.h"

namespace longstream {

// Workspace: WindowAttentionWorkspace.
struct WindowAttentionArgs {
  BatchLayout batch;
  int32_t num_heads = 0;
  int32_t window = 0;  // REQUIRES: window <= ring.slots
  float scale = 1.0f;
  float softcap = 0.0f;  // as in paged attention
  Matrix q;              // [T, H * D]
  Matrix k;              // [T, H_kv * D] of the ring's type, rotated
  Matrix v;              // [T, H_kv * Dv] of the ring's type, Dv = ring.value_slices * D
  RingCache ring;
  Matrix out;  // [T, H * Dv]
};
using WindowAttentionFunction = void (*)(Stream& stream, const WindowAttentionArgs& args);

// Workspace in bytes for decode rows, which a library may cut into parts as it does those of paged
// attention: by the number of keys that a row sees, `window` at most.
constexpr size_t WindowAttentionWorkspace(int64_t decode_rows, int64_t heads, int64_t head_dim,
                                          int64_t window) {
  return AttentionWorkspace(decode_rows, heads, head_dim, window - 1);
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ATTENTION_WINDOW_ATTENTION_H_
