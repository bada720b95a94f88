// Attention over a window. See kernels/ops/attention/window_attention.h.
#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/ops/attention/window_attention.h"

namespace longstream::cuda {

void WindowAttention(Stream& stream, const WindowAttentionArgs& args) {
  if (!stream.ok()) return;
  const RingCache& ring = args.ring;
  Attention attention;
  attention.batch = args.batch;
  attention.type = ring.type;
  attention.num_heads = args.num_heads;
  attention.num_kv_heads = ring.num_kv_heads;
  attention.head_dim = ring.head_dim;
  attention.value_slices = ring.value_slices;
  attention.scale = args.scale;
  attention.softcap = args.softcap;
  attention.ranges[0] = {args.q, KeyStore::Keys(ring, args.k), 0, args.window - 1};
  attention.values = KeyStore::Values(ring, args.v);
  attention.out = args.out;
  Attend(stream, attention);
}

}  // namespace longstream::cuda
