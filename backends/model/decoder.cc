// The forward pass: embedding, layers, head.
#include "backends/model/decoder.h"

#include <algorithm>

#include "backends/model/feed_forward/feed_forward.h"
#include "backends/model/layers.h"
#include "backends/model/mixers/mixers.h"

namespace longstream {

Decoder::Decoder(const ModelSpec& spec, const ModelWeights& weights, const CacheStore& caches,
                 const CacheLayout& layout, const OpTable& ops, const Executor& executor,
                 int64_t max_rows, int64_t max_sequences, Device& device)
    : spec_(spec),
      weights_(weights),
      caches_(caches),
      ops_(ops),
      executor_(executor),
      tables_(spec, max_rows, device),
      buffers_(SizesOf(spec, weights,
                       {.max_rows = max_rows,
                        .max_decode_rows = std::min(max_rows, max_sequences),
                        .context_limit = spec.context_limit}),
               max_rows, layout.ring_type, device),
      near_rings_(layout, tables_, ops, device) {}

//   x = embedding_multiplier * embed[token], normed if the model has a norm there
//   for each layer:  x = x + PostNorm(Mixer_l(Norm(x)));  x = x + PostNorm(FeedForward_l(Norm(x)))
// A norm that the model does not have is left out. A layer that is a parallel block computes
//   x = x + Mixer_l(Norm(x)) + FeedForward_l(Norm(x))
// and a layer that is a gated attention unit computes
//   x = Norm(x + Mixer_l(x))
OpStatus Decoder::Forward(const StepRows& rows, const LogitRows& logit_rows,
                          const int32_t* sampled) {
  ForwardPass pass = {.spec = spec_,
                      .weights = weights_,
                      .caches = caches_,
                      .ops = ops_,
                      .tables = tables_,
                      .buffers = buffers_,
                      .rows = rows,
                      .logit_rows = logit_rows,
                      .stream = buffers_.MakeStream(executor_),
                      .num_rows = rows.num_rows(),
                      .num_decode_rows = rows.num_decode_rows()};
  ops_.embed(pass.stream, {.table = weights_.embedding,
                           .ids = rows.ids(),
                           .multiplier = spec_.embedding_multiplier,
                           .out = pass.Residual(),
                           .sampled = sampled});
  pass.NormResidual(weights_.embedding_norm);
  tables_.Compute(ops_, pass.stream, rows.positions(), pass.num_rows);
  for (size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    const LayerWeights& weights = weights_.layers[layer];
    const FeedForward& feed_forward = FeedForwardOf(spec_.layers[layer].feed_forward);
    // The MLP of a parallel block reads x before the mixer changes it.
    LinearInput hidden;
    if (spec_.parallel) hidden = feed_forward.Hidden(pass, layer, weights.mixer_norm);
    MixerOf(spec_.layers[layer]).Forward(pass, layer);
    if (pass.num_rows == 0) break;  // no row needs logits
    if (!spec_.parallel) hidden = feed_forward.Hidden(pass, layer, weights.mlp_norm);
    feed_forward.AddHidden(pass, layer, hidden);
    pass.NormResidual(weights.stream_norm);
  }
  pass.KeepLogitRows({});
  num_logit_rows_ = pass.num_rows;
  return pass.stream.status;
}

//   logits = logit_multiplier * W_head Norm(x), softly capped where the model has a cap
// All rows are projected as decode rows, so that a token's logits do not depend on which other rows
// of its step need logits.
OpStatus Decoder::Logits(int64_t first, int64_t num_rows, float* logits) {
  Stream stream = buffers_.MakeStream(executor_);
  const Matrix out = {logits, DType::kF32, num_rows, spec_.vocabulary, spec_.vocabulary};
  const LinearRows x = {.x = buffers_.Residual(num_logit_rows_).Rows(first, num_rows),
                        .norm = StreamNorm(spec_, weights_.final_norm)};
  ops_.linear(stream, {.in = {x, weights_.head},
                       .scale = spec_.logit_multiplier,
                       .num_decode_rows = num_rows,
                       .out = out});
  if (spec_.logit_softcap > 0.0f) {
    ops_.soft_cap(stream, {.x = out, .cap = spec_.logit_softcap});
  }
  return stream.status;
}

}  // namespace longstream
