// Attention layers: over all tokens in pages, over a window in a ring, or with ReRoPE, over both.
#include <utility>
#include <variant>

#include "backends/model/decoder.h"

namespace longstream {

//   [u v z] = W_in x,  v = silu(v),  q = q_scale * silu(z) + q_offset,  k likewise
Decoder::Projections Decoder::ProjectGau(Stream& stream, size_t layer) {
  const MixerSpec& mixer = spec_.layers[layer];
  const LayerWeights& weights = weights_.layers[layer];
  const int64_t e = mixer.value_dim, s = mixer.head_dim;
  const Matrix all = buffers_.Projected(num_rows_, 2 * e + 2 * s);
  const LinearRows x = {.x = buffers_.Residual(num_rows_), .norm = StreamNorm(weights.mixer_norm)};
  ops_.linear(stream, {.in = {x, weights.mixer_in},
                       .num_decode_rows = num_decode_rows_,
                       .out = all.Columns(0, 2 * e + s)});
  const Projections out = {.q = all.Columns(2 * e, s),
                           .k = all.Columns(2 * e + s, s),
                           .v = all.Columns(e, e),
                           .gate = all.Columns(0, e)};
  ops_.gau_activate(stream, {.v = out.v,
                             .z = out.q,
                             .q_scale = weights.q_scale,
                             .q_offset = weights.q_offset,
                             .k_scale = weights.k_scale,
                             .k_offset = weights.k_offset,
                             .q = out.q,
                             .k = out.k});
  return out;
}

void Decoder::ClipAndNorm(Stream& stream, const Projections& in, size_t layer) {
  const MixerSpec& mixer = spec_.layers[layer];
  const LayerWeights& weights = weights_.layers[layer];
  const auto clip = static_cast<float>(mixer.qkv_clip);
  if (clip > 0.0f) {
    for (const Matrix& x : {in.q, in.k, in.v}) {
      ops_.soft_cap(stream, {.x = x, .cap = clip, .cut = true});
    }
  }
  if (mixer.qk_norm == QkNorm::kNone || mixer.qk_norm == QkNorm::kHead) return;
  const bool each = mixer.qk_norm == QkNorm::kEachHead;
  for (const auto& [rows, weight] : {std::pair(in.q, weights.q_norm), {in.k, weights.k_norm}}) {
    Norm norm = NormOf(weight, each ? mixer.head_dim : rows.cols);
    norm.centred = each;
    ops_.norm_rows(stream, {.in = rows, .norm = norm, .out = rows});
  }
}

//   o = softmax(score_scale * q K^T) V,   x = x + W_o (o * sigmoid(gate))
//
// or, in a gated attention unit,  x = x + W_o (o * silu(u)).
//
// ClipAndNorm comes first. Then rope_cache_write norms heads that share one norm's weights, rotates
// q and k, and scales q by position (PositionTables). With ReRoPE the pages hold main keys, which
// far queries are compared with, and the near ring holds rotated keys.
void Decoder::Attend(Stream& stream, const StepRows& rows, size_t layer) {
  const MixerSpec& mixer = spec_.layers[layer];
  const LayerWeights& weights = weights_.layers[layer];
  const LayerTables tables = tables_.layer(layer);
  const bool gau = spec_.block == BlockKind::kGau;
  const Projections in = gau ? ProjectGau(stream, layer) : Project(stream, rows, layer);
  const Matrix mixed = buffers_.Mixed(num_rows_, int64_t{mixer.num_heads} * mixer.value_dim);
  ClipAndNorm(stream, in, layer);

  const bool same_norm = mixer.qk_norm == QkNorm::kHead;
  const auto head_norm = [&](const float* norm) { return same_norm ? norm : nullptr; };
  RopeCacheWriteArgs write = {.batch = rows.layout(),
                              .num_heads = mixer.num_heads,
                              .num_kv_heads = mixer.num_kv_heads,
                              .head_dim = mixer.head_dim,
                              .value_dim = mixer.value_dim,
                              .q = in.q,
                              .k = in.k,
                              .v = in.v,
                              .q_norm = NormOf(head_norm(weights.q_norm), mixer.head_dim),
                              .k_norm = NormOf(head_norm(weights.k_norm), mixer.head_dim),
                              .rope_q = tables.q,
                              .rope_q_far = tables.q_far,
                              .rope_k = tables.k,
                              .rope_near = tables.near,
                              .q_scale = tables.q_scale,
                              .q_out = in.q};

  // Where the step's keys and values go, and the keys that its rows see.
  KeyView keys;
  if (mixer.kind == MixerKind::kWindow) {
    write.k_out = buffers_.Keys(num_rows_, in.k.cols);
    write.v_out = buffers_.Values(num_rows_, in.v.cols);
    keys = RingKeys{.ring = caches_.slots.ring(layer), .k = write.k_out, .v = write.v_out};
  } else if (mixer.rerope()) {
    write.paged = caches_.pages.layer(layer);
    write.q_far_out = buffers_.FarQueries(num_rows_, in.q.cols);
    write.near_out = buffers_.Keys(num_rows_, in.k.cols);
    keys = FarNearKeys{.near_window = mixer.rerope_window,
                       .q_far = write.q_far_out,
                       .far = write.paged,
                       .near = caches_.slots.near_ring(layer),
                       .near_rows = write.near_out};
  } else {
    write.paged = caches_.pages.layer(layer);
    keys = PagedKeys{write.paged};
  }
  ops_.rope_cache_write(stream, write);
  ops_.attention(stream, {.batch = write.batch,
                          .num_heads = mixer.num_heads,
                          .window = mixer.window,
                          .scale = static_cast<float>(mixer.score_scale),
                          .softcap = static_cast<float>(mixer.softcap),
                          .alibi_slopes = weights.alibi_slopes,
                          .q = in.q,
                          .keys = keys,
                          .max_position = rows.max_position(),
                          .out = mixed});
  // A ring forgets its oldest keys only here, after attention has read them.
  if (const auto* ring = std::get_if<RingKeys>(&keys)) {
    ops_.ring_write(stream, {.batch = write.batch, .k = ring->k, .v = ring->v, .ring = ring->ring});
  } else if (const auto* far_near = std::get_if<FarNearKeys>(&keys)) {
    ops_.ring_write(stream,
                    {.batch = write.batch, .k = far_near->near_rows, .ring = far_near->near});
  }
  ProjectBack(stream, mixed, in.gate, layer);
}

}  // namespace longstream
