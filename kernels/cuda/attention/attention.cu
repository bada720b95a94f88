// Attention over each view of keys (kernels/ops/attention/attention.h).
#include <variant>

#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/ops/attention/attention.h"

namespace longstream::cuda {
namespace {

// Copies the type and the sizes of the keys and values from `cache`. They have the same names in
// every view of keys.
template <typename Cache>
void SetShape(const Cache& cache, Attention* attention) {
  attention->type = cache.type;
  attention->num_kv_heads = cache.num_kv_heads;
  attention->head_dim = cache.head_dim;
  attention->value_slices = cache.value_slices;
}

void SetKeys(const AttentionArgs& args, const PagedKeys& from, Attention* attention) {
  SetShape(from.cache, attention);
  attention->ranges[0] = {args.q, KeyStore::Keys(from.cache)};
  attention->values = KeyStore::Values(from.cache);
  attention->max_position = args.max_position;
}

void SetKeys(const AttentionArgs& args, const RingKeys& from, Attention* attention) {
  SetShape(from.ring, attention);
  attention->ranges[0] = {args.q, KeyStore::Keys(from.ring, from.k), 0, args.window - 1};
  attention->values = KeyStore::Values(from.ring, from.v);
}

void SetKeys(const AttentionArgs& args, const FarNearKeys& from, Attention* attention) {
  SetShape(from.far, attention);
  attention->num_ranges = 2;
  attention->ranges[0] = {from.q_far, KeyStore::Keys(from.far), from.near_window};
  attention->ranges[1] = {args.q, KeyStore::Keys(from.near, from.near_rows), 0,
                          from.near_window - 1};
  attention->values = KeyStore::Values(from.far);
  attention->max_position = args.max_position;
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
  attention.alibi_slopes = args.alibi_slopes;
  attention.out = args.out;
  if (const auto* keys = std::get_if<PagedKeys>(&args.keys)) SetKeys(args, *keys, &attention);
  if (const auto* keys = std::get_if<RingKeys>(&args.keys)) SetKeys(args, *keys, &attention);
  if (const auto* keys = std::get_if<FarNearKeys>(&args.keys)) SetKeys(args, *keys, &attention);
  Attend(stream, attention);
}

}  // namespace longstream::cuda
