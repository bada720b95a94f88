// Gated attention units (Hua et al., Transformer Quality in Linear Time): one head whose queries
// and keys come from one projection z, whose values are as wide as its output, and whose output is
// gated with u. No MLP follows.
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/model/mixers/attention.h"
#include "backends/model/mixers/mixers.h"
#include "kernels/ops/attention/attention.h"

namespace longstream {
namespace {

//   [u v z] = W_in x,  v = silu(v),  q = q_scale * silu(z) + q_offset,  k likewise
//   x = x + W_o (softmax(score_scale * q K^T) V * silu(u))
class GatedAttentionUnitMixer final : public Mixer {
 public:
  int32_t max_head_dim() const override { return kMaxHeadDim; }

  LayerCacheLayout Caches(const MixerSpec& mixer) const override { return AttentionCaches(mixer); }

  // The tensor names are this project's own (docs/checkpoints.md). Queries and keys are made of z,
  // so the elements of z are reordered as those of a head are.
  void Read(const NamedTensors& tensors, const MixerSpec& mixer,
            MixerWeights* weights) const override {
    const int64_t e = mixer.value_dim, s = mixer.head_dim;
    const std::vector<int32_t> order = HeadOrder(mixer);
    weights->in = tensors.Projection({{"gau.in_proj", 2 * e}, {"gau.in_proj", s, order}},
                                     tensors.spec().width);
    const auto vector = [&](std::string_view name) {
      return tensors.Vector({{name, s, order}}, "");
    };
    weights->q_scale = vector("gau.q_scale");
    weights->q_offset = vector("gau.q_offset");
    weights->k_scale = vector("gau.k_scale");
    weights->k_offset = vector("gau.k_offset");
    MakeSlopes(tensors, mixer, weights);
    weights->out = tensors.Projection({{"gau.out_proj", tensors.spec().width}}, e);
  }

  // Queries and keys are both made of z, so the buffer has s columns more than W_in has outputs.
  void RaiseSizes(const StepLimits& limits, const MixerSpec& mixer, const MixerWeights& weights,
                  StepSizes* sizes) const override {
    RaiseAttentionSizes(limits, mixer, weights, sizes);
    StepSizes::Raise(sizes->projected, weights.in.n + int64_t{mixer.head_dim});
  }

  void Forward(ForwardPass& pass, size_t layer) const override {
    const Projections in = ProjectUnit(pass, layer);
    const Matrix mixed = Attend(pass, layer, in);
    ProjectBack(pass, layer, {.x = mixed, .gate = in.gate, .silu_gate = true});
  }

 private:
  // The result's `gate` is u.
  static Projections ProjectUnit(ForwardPass& pass, size_t layer) {
    const MixerSpec& mixer = pass.spec.layers[layer];
    const LayerWeights& weights = pass.weights.layers[layer];
    const int64_t e = mixer.value_dim, s = mixer.head_dim;
    const Matrix all = pass.buffers.Projected(pass.num_rows, 2 * e + 2 * s);
    const LinearRows x = {.x = pass.Residual(), .norm = pass.StreamNorm(weights.mixer_norm)};
    pass.ops.linear(pass.stream, {.in = {x, weights.mixer.in},
                                  .num_decode_rows = pass.num_decode_rows,
                                  .out = all.Columns(0, 2 * e + s)});
    const Projections out = {.q = all.Columns(2 * e, s),
                             .k = all.Columns(2 * e + s, s),
                             .v = all.Columns(e, e),
                             .gate = all.Columns(0, e)};
    pass.ops.gau_activate(pass.stream, {.v = out.v,
                                        .z = out.q,
                                        .q_scale = weights.mixer.q_scale,
                                        .q_offset = weights.mixer.q_offset,
                                        .k_scale = weights.mixer.k_scale,
                                        .k_offset = weights.mixer.k_offset,
                                        .q = out.q,
                                        .k = out.k});
    return out;
  }
};

}  // namespace

const Mixer& GatedAttentionUnit() {
  static const GatedAttentionUnitMixer mixer;
  return mixer;
}

}  // namespace longstream
