// Lightning attention (Qin et al., Lightning Attention-2): a linear RNN whose decay is fixed for
// each head.
#include "backends/model/mixers/alibi_slopes.h"
#include "backends/model/mixers/linear_recurrence.h"
#include "backends/model/mixers/mixers.h"

namespace longstream {
namespace {

//   S_t = gamma_h S_(t-1) + k_t^T v_t,   o_t = score_scale * q_t S_t
//   x = x + W_o (Norm(o) * sigmoid(z))
// with queries and keys normed per head and rotated where the layer says so.
class LightningMixer final : public Mixer {
 public:
  LayerCacheLayout Caches(const MixerSpec& mixer) const override {
    return RecurrentCaches(mixer, /*gated=*/false);
  }

  void Read(const NamedTensors& tensors, const MixerSpec& mixer,
            MixerWeights* weights) const override {
    GateTensor gate = {.name = "self_attn.z_proj"};
    if (mixer.output_gate) gate.rows = ProjectionWidths(mixer).out;
    ReadInput(tensors, mixer, gate, weights);
    if (mixer.output_norm) {
      const int64_t size = ProjectionWidths(mixer).out;
      weights->output_norm = tensors.Vector({{"self_attn.o_norm", size}}, ".weight");
    }
    weights->log_decay = tensors.source().Constants(LightningLogDecay(mixer.num_heads));
    ReadOutput(tensors, mixer, weights);
  }

  void RaiseSizes(const StepLimits& limits, const MixerSpec& mixer, const MixerWeights& weights,
                  StepSizes* sizes) const override {
    RaiseRecurrenceSizes(limits, mixer, weights, sizes);
  }

  void Forward(ForwardPass& pass, size_t layer) const override {
    const MixerWeights& weights = pass.weights.layers[layer].mixer;
    const Projections in = Project(pass, layer);
    const Matrix mixed = Recur(pass, layer, in, {.log_decay = weights.log_decay});
    ProjectBack(
        pass, layer,
        {.x = mixed, .norm = pass.NormOf(weights.output_norm, mixed.cols), .gate = in.gate});
  }
};

}  // namespace

const Mixer& Lightning() {
  static const LightningMixer mixer;
  return mixer;
}

}  // namespace longstream
