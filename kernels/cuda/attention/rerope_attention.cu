// Attention with clipped or slowed distances. See kernels/ops/attention/rerope_attention.h.
#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/ops/attention/rerope_attention.h"

namespace longstream::cuda {

void ReropeAttention(Stream& stream, const ReropeAttentionArgs& args) {
  if (!stream.ok()) return;
  const PagedCache& cache = args.cache;
  Attention attention;
  attention.batch = args.batch;
  attention.type = cache.type;
  attention.num_heads = args.num_heads;
  attention.num_kv_heads = cache.num_kv_heads;
  attention.head_dim = cache.head_dim;
  attention.value_slices = cache.value_slices;
  attention.scale = args.scale;
  attention.softcap = args.softcap;
  attention.num_ranges = 2;
  attention.ranges[0] = {args.q_far, KeyStore::Keys(cache), args.window};
  attention.ranges[1] = {args.q, KeyStore::Keys(args.near, args.near_rows), 0, args.window - 1};
  attention.values = KeyStore::Values(cache);
  attention.max_position = args.max_position;
  attention.out = args.out;
  Attend(stream, attention);
}

}  // namespace longstream::cuda
