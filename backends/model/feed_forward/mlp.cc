// MLPs with and without a gate.
#include <tuple>
#include <vector>

#include "backends/model/feed_forward/kinds.h"

namespace longstream {
namespace {

//   hidden = act(W_gate h) * (W_up h), or act(W_gate h) without a gate;  h = Norm(x)
//   x = x + residual_multiplier * PostNorm(W_down hidden)
// with a bias on each product where the model has them.
class Mlp final : public FeedForward {
 public:
  explicit Mlp(bool gated) : gated_(gated) {}

  void Read(const NamedTensors& tensors, LayerWeights* layer) const override {
    MlpWeights* weights = &layer->mlp;
    const TensorNames& names = tensors.names();
    const ModelSpec& spec = tensors.spec();
    std::vector<NamedRows> in = {{names.gate, spec.mlp_width}};
    if (gated_) in.push_back({names.up, spec.mlp_width});
    const std::vector<NamedRows> down = {{names.down, spec.width}};
    if (gated_) {
      const std::vector<WeightPart> parts = tensors.Parts(in, ".weight");
      std::tie(weights->gate, weights->up) = tensors.source().Pair(parts[0], parts[1], spec.width);
    } else {
      weights->gate = tensors.Projection(in, spec.width);
    }
    weights->down = tensors.Projection(down, spec.mlp_width);
    if (!spec.mlp_bias) return;
    const std::vector<WeightPart> biases = tensors.Parts(in, ".bias");
    weights->gate_bias = tensors.source().Vector({biases[0]}, 0.0f);
    if (gated_) weights->up_bias = tensors.source().Vector({biases[1]}, 0.0f);
    weights->down_bias = tensors.Vector(down, ".bias");
  }

  void RaiseSizes(const StepLimits& limits, const ModelSpec& spec,
                  StepSizes* sizes) const override {
    StepSizes::Raise(sizes->hidden, PreparedBytes(limits.max_rows, spec.mlp_width));
    StepSizes::Raise(sizes->workspace,
                     LinearWorkspace(limits.max_rows, spec.width, spec.mlp_width));
  }

  LinearInput Hidden(ForwardPass& pass, size_t layer, const NormWeights& norm) const override {
    const MlpWeights& weights = pass.weights.layers[layer].mlp;
    const LinearRows x = {.x = pass.Residual(), .norm = pass.StreamNorm(norm)};
    return LinearFor(weights.down, pass.num_rows, pass.buffers.Hidden(), pass.ops.linear,
                     pass.stream,
                     {.in = {x, weights.gate},
                      .bias = weights.gate_bias,
                      .activation = pass.spec.activation,
                      .up = weights.up,
                      .up_bias = weights.up_bias,
                      .num_decode_rows = pass.num_decode_rows,
                      .out = {}});
  }

  void AddHidden(ForwardPass& pass, size_t layer, const LinearInput& hidden) const override {
    const LayerWeights& weights = pass.weights.layers[layer];
    pass.AddBranch(hidden, weights.mlp.down_bias, weights.mlp_post_norm);
  }

 private:
  const bool gated_;
};

}  // namespace

const FeedForward& GatedMlp() {
  static const Mlp mlp(/*gated=*/true);
  return mlp;
}

const FeedForward& PlainMlp() {
  static const Mlp mlp(/*gated=*/false);
  return mlp;
}

}  // namespace longstream
