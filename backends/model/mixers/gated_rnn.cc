// The gated RNN: a linear RNN whose decay depends on the token, for each key element of each head.
#include "backends/model/mixers/linear_recurrence.h"
#include "backends/model/mixers/mixers.h"

namespace longstream {
namespace {

//   f_t = sigmoid(W_f x + b_f),   S_t = f_t S_(t-1) + k_t^T v_t,   o_t = score_scale * q_t S_t
//   x = x + W_o o
class GatedRnnMixer final : public Mixer {
 public:
  LayerCacheLayout Caches(const MixerSpec& mixer) const override {
    return RecurrentCaches(mixer, /*gated=*/true);
  }

  void Read(const NamedTensors& tensors, const MixerSpec& mixer,
            MixerWeights* weights) const override {
    ReadInput(tensors, mixer,
              {.name = "self_attn.f_proj", .rows = ProjectionWidths(mixer).q, .has_bias = true},
              weights);
    ReadOutput(tensors, mixer, weights);
  }

  void RaiseSizes(const StepLimits& limits, const MixerSpec& mixer, const MixerWeights& weights,
                  StepSizes* sizes) const override {
    RaiseRecurrenceSizes(limits, mixer, weights, sizes);
  }

  void Forward(ForwardPass& pass, size_t layer) const override {
    const Projections in = Project(pass, layer);
    const Matrix mixed = Recur(pass, layer, in, {.gate = in.gate});
    ProjectBack(pass, layer, {.x = mixed});
  }
};

}  // namespace

const Mixer& GatedRnn() {
  static const GatedRnnMixer mixer;
  return mixer;
}

}  // namespace longstream
