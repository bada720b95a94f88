// Attention over each view of keys (kernels/ops/attention/attention.h).
#include "kernels/ops/attention/attention.h"

#include <variant>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

void SetKeys(const PagedKeys& from, Attention* attention) {
  attention->keys = RowStore::Keys(from.cache);
  attention->values = RowStore::Values(from.cache);
  attention->split = true;
}

void SetKeys(const RingKeys& from, Attention* attention) {
  attention->keys = RowStore::Keys(from.ring, from.k);
  attention->values = RowStore::Values(from.ring, from.v);
}

void SetKeys(const FarNearKeys& from, Attention* attention) {
  attention->window = from.near_window;
  attention->q_far = from.q_far;
  attention->keys = RowStore::Keys(from.near, from.near_rows);
  attention->far_keys = RowStore::Keys(from.far);
  attention->values = RowStore::Values(from.far);
  attention->split = true;
}

}  // namespace

void Attend(Stream& stream, const AttentionArgs& args) {
  if (!stream.ok()) return;
  if (!ServesCombination(args)) return stream.Fail(OpStatus::kUnsupported);
  Attention attention;
  attention.batch = args.batch;
  attention.num_heads = args.num_heads;
  attention.scale = args.scale;
  attention.softcap = args.softcap;
  if (args.window > 0) attention.window = args.window;
  attention.q = args.q;
  attention.alibi_slopes = args.alibi_slopes;
  attention.max_position = args.max_position;
  attention.out = args.out;
  if (const auto* keys = std::get_if<PagedKeys>(&args.keys)) SetKeys(*keys, &attention);
  if (const auto* keys = std::get_if<RingKeys>(&args.keys)) SetKeys(*keys, &attention);
  if (const auto* keys = std::get_if<FarNearKeys>(&args.keys)) SetKeys(*keys, &attention);
  Attend(stream, attention);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
