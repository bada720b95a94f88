// Linear-RNN layers: lightning attention (fixed decay) and the gated RNN (data-dependent decay).
#include "backends/model/decoder.h"

namespace longstream {

//   S_t = f_t S_(t-1) + k_t^T v_t,   o_t = score_scale * q_t S_t
//   x = x + W_o (Norm(o) * sigmoid(gate))
//
// Lightning: q and k normed per head and rotated, f_t = gamma_h, output norm and gate.
// Gated RNN: f_t = sigmoid(W_f x + b_f), the fourth part of the projection; the rest as it is.
void Decoder::Recur(Stream& stream, const StepRows& rows, size_t layer) {
  const MixerSpec& mixer = spec_.layers[layer];
  const LayerWeights& weights = weights_.layers[layer];
  const LayerTables tables = tables_.layer(layer);
  const Projections in = Project(stream, rows, layer);

  // In place: queries, keys and values stay f32.
  ops_.rope_cache_write(stream, {.batch = rows.layout(),
                                 .num_heads = mixer.num_heads,
                                 .num_kv_heads = mixer.num_kv_heads,
                                 .head_dim = mixer.head_dim,
                                 .value_dim = mixer.value_dim,
                                 .q = in.q,
                                 .k = in.k,
                                 .v = in.v,
                                 .q_norm = NormOf(weights.q_norm, mixer.head_dim),
                                 .k_norm = NormOf(weights.k_norm, mixer.head_dim),
                                 .rope_q = tables.q,
                                 .rope_k = tables.k,
                                 .q_out = in.q,
                                 .k_out = in.k,
                                 .v_out = in.v});

  const bool gated = mixer.kind == MixerKind::kGatedRnn;
  const Matrix mixed = buffers_.Mixed(num_rows_, int64_t{mixer.num_heads} * mixer.value_dim);
  ops_.linear_recurrence(stream, {.batch = rows.layout(),
                                  .q = in.q,
                                  .k = in.k,
                                  .v = in.v,
                                  .log_decay = gated ? nullptr : weights.log_decay,
                                  .gate = gated ? in.gate : Matrix{},
                                  .scale = static_cast<float>(mixer.score_scale),
                                  .cache = caches_.slots.recurrent(layer),
                                  .out = mixed});
  ProjectBack(stream, mixed, in.gate, layer);
}

}  // namespace longstream
