// The recurrence of linear RNNs, on the op table.
#include "backends/model/mixers/linear_recurrence.h"

#include "kernels/ops/recurrence/linear_recurrence.h"

namespace longstream {

LayerCacheLayout RecurrentCaches(const MixerSpec& mixer, bool gated) {
  LayerCacheLayout caches;
  caches.recurrent = RecurrentLayout{.num_heads = mixer.num_heads,
                                     .num_kv_heads = mixer.num_kv_heads,
                                     .key_dim = mixer.head_dim,
                                     .value_dim = mixer.value_dim,
                                     .gated = gated};
  return caches;
}

void RaiseRecurrenceSizes(const StepLimits& limits, const MixerSpec& mixer,
                          const MixerWeights& weights, StepSizes* sizes) {
  RaiseProjectionSizes(limits, mixer, weights, sizes);
  StepSizes::Raise(sizes->workspace, LinearRecurrenceWorkspace(limits.max_rows, mixer.num_heads,
                                                               kPrefillGrid, mixer.head_dim));
}

Matrix Recur(ForwardPass& pass, size_t layer, const Projections& in, const Decay& decay) {
  const MixerSpec& mixer = pass.spec.layers[layer];
  // Queries, keys and values stay where they are, as f32.
  RopeCacheWriteArgs write = CacheWriteArgs(pass, layer, in);
  write.k_out = in.k;
  write.v_out = in.v;
  pass.ops.rope_cache_write(pass.stream, write);
  const Matrix mixed = pass.buffers.Mixed(pass.num_rows, ProjectionWidths(mixer).out);
  pass.ops.linear_recurrence(pass.stream, {.batch = pass.rows.layout(),
                                           .q = in.q,
                                           .k = in.k,
                                           .v = in.v,
                                           .log_decay = decay.log_decay,
                                           .gate = decay.gate,
                                           .scale = static_cast<float>(mixer.score_scale),
                                           .cache = pass.caches.slots.recurrent(layer),
                                           .out = mixed});
  return mixed;
}

}  // namespace longstream
