// Attention over pages. See kernels/ops/attention/paged_attention.h.
#include "kernels/ops/attention/paged_attention.h"

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void PagedAttention(Stream& stream, const PagedAttentionArgs& args) {
  if (!stream.ok()) return;
  Attention attention;
  attention.batch = args.batch;
  attention.num_heads = args.num_heads;
  attention.scale = args.scale;
  attention.softcap = args.softcap;
  attention.q = args.q;
  attention.keys = RowStore::Keys(args.cache);
  attention.values = RowStore::Values(args.cache);
  attention.alibi_slopes = args.alibi_slopes;
  attention.split = true;
  attention.max_position = args.max_position;
  attention.out = args.out;
  Attend(stream, attention);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
