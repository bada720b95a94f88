// Full causal attention whose relative distance is clipped (ReRoPE) or slowed (Leaky ReRoPE) from
// `window` on (Su 2023). One dot product per key: far keys against q_far in the unrotated (or
// slowly rotated) pages, near keys against q in the rotated ring; one softmax, one V.
//
//   s_j = scale * q_far . main_j   for p - j >= window
//   s_j = scale * q . near_j       for p - j <  window
#ifndef LONGSTREAM_KERNELS_OPS_ATTENTION_REROPE_ATTENTION_H_
#define LONGSTREAM_KERNELS_OPS_ATTENTION_REROPE_ATTENTION_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/attention/paged_attention.h"

namespace longstream {

// Workspace: AttentionWorkspace.
struct ReropeAttentionArgs {
  BatchLayout batch;
  int32_t num_heads = 0;
  int32_t window = 0;  // w; REQUIRES: window <= near.slots
  float scale = 1.0f;
  float softcap = 0.0f;  // as in paged attention
  Matrix q;              // [T, H * D] for near keys
  Matrix q_far;          // [T, H * D] for far keys
  PagedCache cache;      // main keys and values, the step's own included
  RingCache near;    // near keys of earlier steps, of the pages' type, bf16 beside int8; no values
  Matrix near_rows;  // [T, H_kv * D] near keys of this step, of the ring's type
  int64_t max_position = 0;
  Matrix out;  // [T, H * Dv], Dv = cache.value_slices * D
};
using ReropeAttentionFunction = void (*)(Stream& stream, const ReropeAttentionArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ATTENTION_REROPE_ATTENTION_H_
