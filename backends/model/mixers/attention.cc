// Attention layers: over all tokens in pages; over a window in a ring; or, with ReRoPE, over far
// tokens in pages and near tokens in a ring.
#include "backends/model/mixers/attention.h"

#include <utility>
#include <variant>

#include "backends/model/mixers/alibi_slopes.h"
#include "backends/model/mixers/mixers.h"
#include "kernels/ops/attention/attention.h"

namespace longstream {
namespace {

// Clips q, k and v, and norms queries and keys, if the layer asks for it. These norms are over all
// heads together, or have weights of each head's own. A norm with the same weights for every head
// comes later (rope_cache_write).
void ClipAndNorm(ForwardPass& pass, size_t layer, const Projections& in) {
  const MixerSpec& mixer = pass.spec.layers[layer];
  const MixerWeights& weights = pass.weights.layers[layer].mixer;
  const auto clip = [&] {
    if (mixer.qkv_clip <= 0.0) return;
    for (const Matrix& x : {in.q, in.k, in.v}) {
      pass.ops.soft_cap(pass.stream,
                        {.x = x, .cap = static_cast<float>(mixer.qkv_clip), .cut = true});
    }
  };
  if (!mixer.norm_before_clip) clip();
  if (mixer.qk_norm == QkNorm::kNone || mixer.qk_norm == QkNorm::kHead) return;
  const bool each = mixer.qk_norm == QkNorm::kEachHead;
  for (const auto& [rows, weight] : {std::pair(in.q, weights.q_norm), {in.k, weights.k_norm}}) {
    Norm norm = pass.NormOf(weight, each ? mixer.head_dim : rows.cols);
    norm.centred = each;
    pass.ops.norm_rows(pass.stream, {.in = rows, .norm = norm, .out = rows});
  }
  if (mixer.norm_before_clip) clip();
}

//   x = x + W_o (softmax(score_scale * q K^T) V * sigmoid(gate))
class AttentionMixer final : public Mixer {
 public:
  int32_t max_head_dim() const override { return kMaxHeadDim; }

  LayerCacheLayout Caches(const MixerSpec& mixer) const override { return AttentionCaches(mixer); }

  void Read(const NamedTensors& tensors, const MixerSpec& mixer,
            MixerWeights* weights) const override {
    GateTensor gate = {.name = tensors.names().output_gate};
    if (mixer.output_gate) gate.rows = ProjectionWidths(mixer).out;
    ReadInput(tensors, mixer, gate, weights);
    MakeSlopes(tensors, mixer, weights);
    ReadOutput(tensors, mixer, weights);
  }

  void RaiseSizes(const StepLimits& limits, const MixerSpec& mixer, const MixerWeights& weights,
                  StepSizes* sizes) const override {
    RaiseAttentionSizes(limits, mixer, weights, sizes);
  }

  void Forward(ForwardPass& pass, size_t layer) const override {
    const Projections in = Project(pass, layer);
    const Matrix mixed = Attend(pass, layer, in);
    ProjectBack(pass, layer, {.x = mixed, .gate = in.gate});
  }
};

}  // namespace

const Mixer& Attention() {
  static const AttentionMixer mixer;
  return mixer;
}

LayerCacheLayout AttentionCaches(const MixerSpec& mixer) {
  LayerCacheLayout caches;
  const int32_t heads = mixer.num_kv_heads, dim = mixer.head_dim, slices = mixer.value_slices();
  if (mixer.kind == MixerKind::kWindow) {
    caches.ring = RingLayout::For(mixer.window, heads, dim, slices);
    return caches;
  }
  caches.paged = PagedLayout{heads, dim, slices};
  if (mixer.rerope()) caches.near = RingLayout::For(mixer.rerope_window, heads, dim, 0);
  return caches;
}

void MakeSlopes(const NamedTensors& tensors, const MixerSpec& mixer, MixerWeights* weights) {
  if (mixer.position != PositionKind::kAlibi) return;
  weights->alibi_slopes = tensors.source().Constants(AlibiSlopes(mixer.num_heads, mixer.alibi_max));
}

void RaiseAttentionSizes(const StepLimits& limits, const MixerSpec& mixer,
                         const MixerWeights& weights, StepSizes* sizes) {
  RaiseProjectionSizes(limits, mixer, weights, sizes);
  const ProjectionWidths widths(mixer);
  StepSizes::Raise(sizes->keys, widths.k);
  StepSizes::Raise(sizes->values, widths.v);
  if (mixer.rerope()) StepSizes::Raise(sizes->far_queries, widths.q);
  const int64_t out_heads = int64_t{mixer.num_heads} * mixer.value_slices();
  const int64_t visible = mixer.kind == MixerKind::kWindow ? mixer.window : limits.context_limit;
  StepSizes::Raise(sizes->workspace, AttentionWorkspace(limits.max_decode_rows, out_heads,
                                                        mixer.head_dim, visible - 1));
}

// With ReRoPE, far queries are compared with the keys in the pages, and near queries with the
// rotated keys in the near ring.
Matrix Attend(ForwardPass& pass, size_t layer, const Projections& in) {
  const MixerSpec& mixer = pass.spec.layers[layer];
  ClipAndNorm(pass, layer, in);
  RopeCacheWriteArgs write = CacheWriteArgs(pass, layer, in);

  // Where the step's keys and values go, and the keys that its rows see.
  KeyView keys;
  if (mixer.kind == MixerKind::kWindow) {
    write.k_out = pass.buffers.Keys(pass.num_rows, in.k.cols);
    write.v_out = pass.buffers.Values(pass.num_rows, in.v.cols);
    keys = RingKeys{.ring = pass.caches.slots.ring(layer), .k = write.k_out, .v = write.v_out};
  } else if (mixer.rerope()) {
    write.paged = pass.caches.pages.layer(layer);
    write.q_far_out = pass.buffers.FarQueries(pass.num_rows, in.q.cols);
    write.near_out = pass.buffers.Keys(pass.num_rows, in.k.cols);
    keys = FarNearKeys{.near_window = mixer.rerope_window,
                       .q_far = write.q_far_out,
                       .far = write.paged,
                       .near = pass.caches.slots.near_ring(layer),
                       .near_rows = write.near_out};
  } else {
    write.paged = pass.caches.pages.layer(layer);
    keys = PagedKeys{write.paged};
  }
  pass.ops.rope_cache_write(pass.stream, write);

  const Matrix mixed = pass.buffers.Mixed(pass.num_rows, ProjectionWidths(mixer).out);
  pass.ops.attention(pass.stream, {.batch = write.batch,
                                   .num_heads = mixer.num_heads,
                                   .window = mixer.window,
                                   .scale = static_cast<float>(mixer.score_scale),
                                   .softcap = static_cast<float>(mixer.softcap),
                                   .alibi_slopes = pass.weights.layers[layer].mixer.alibi_slopes,
                                   .q = in.q,
                                   .keys = keys,
                                   .max_position = pass.rows.max_position(),
                                   .out = mixed});
  // A ring forgets its oldest keys only here, after attention has read them.
  if (const auto* ring = std::get_if<RingKeys>(&keys)) {
    pass.ops.ring_write(pass.stream,
                        {.batch = write.batch, .k = ring->k, .v = ring->v, .ring = ring->ring});
  } else if (const auto* far_near = std::get_if<FarNearKeys>(&keys)) {
    pass.ops.ring_write(pass.stream,
                        {.batch = write.batch, .k = far_near->near_rows, .ring = far_near->near});
  }
  return mixed;
}

}  // namespace longstream
