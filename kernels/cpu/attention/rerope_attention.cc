// Attention with clipped or slowed distances. See kernels/ops/attention/rerope_attention.h.
#include "kernels/ops/attention/rerope_attention.h"

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void ReropeAttention(Stream& stream, const ReropeAttentionArgs& args) {
  if (!stream.ok()) return;
  Attention attention;
  attention.batch = args.batch;
  attention.num_heads = args.num_heads;
  attention.scale = args.scale;
  attention.softcap = args.softcap;
  attention.window = args.window;
  attention.q = args.q;
  attention.q_far = args.q_far;
  attention.keys = RowStore::Keys(args.near, args.near_rows);
  attention.far_keys = RowStore::Keys(args.cache);
  attention.values = RowStore::Values(args.cache);
  attention.split = true;
  attention.max_position = args.max_position;
  attention.out = args.out;
  Attend(stream, attention);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
