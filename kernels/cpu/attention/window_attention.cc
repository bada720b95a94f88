// Attention over a window. See kernels/ops/attention/window_attention.h.
#include "kernels/ops/attention/window_attention.h"

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void WindowAttention(Stream& stream, const WindowAttentionArgs& args) {
  if (!stream.ok()) return;
  Attention attention;
  attention.batch = args.batch;
  attention.num_heads = args.num_heads;
  attention.scale = args.scale;
  attention.softcap = args.softcap;
  attention.window = args.window;
  attention.q = args.q;
  attention.keys = RowStore::Keys(args.ring, args.k);
  attention.values = RowStore::Values(args.ring, args.v);
  attention.out = args.out;
  Attend(stream, attention);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
