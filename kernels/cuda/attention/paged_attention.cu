// Attention over pages. See kernels/ops/attention/paged_attention.h.
#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/ops/attention/paged_attention.h"

namespace longstream::cuda {

void PagedAttention(Stream& stream, const PagedAttentionArgs& args) {
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
  attention.ranges[0] = {args.q, KeyStore::Keys(cache)};
  attention.values = KeyStore::Values(cache);
  attention.alibi_slopes = args.alibi_slopes;
  attention.max_position = args.max_position;
  attention.out = args.out;
  Attend(stream, attention);
}

}  // namespace longstream::cuda
