// Mixtures of experts: a router chooses some MLPs for each row (docs/models.md).
#include <string>
#include <utility>
#include <vector>

#include "backends/model/feed_forward/kinds.h"
#include "kernels/ops/experts/expert_hidden.h"
#include "kernels/ops/experts/expert_sum.h"
#include "kernels/ops/experts/route.h"

namespace longstream {
namespace {

// The three tensors of one expert, or their parts.
struct ExpertParts {
  WeightPart gate;
  WeightPart up;
  WeightPart down;
};

// Rows [first, first + rows) of each of `count` matrices, in a tensor of `count` times `all` rows.
WeightPart StackedPart(std::string name, int64_t rows, int64_t all, int64_t first, int64_t expert,
                       int64_t count) {
  return {.name = std::move(name),
          .rows = rows,
          .stored_rows = count * all,
          .first_row = expert * all + first,
          .stacked = count};
}

ExpertParts PartsOf(const NamedTensors& tensors, int64_t expert) {
  const ExpertNames& names = tensors.names().experts;
  const ModelSpec& spec = tensors.spec();
  const int64_t ff = spec.experts.width, d = spec.width, count = spec.experts.num_experts;
  if (names.stacked) {
    const std::string gate = tensors.FullName(names.gate) + ".weight";
    const std::string up = tensors.FullName(names.up) + ".weight";
    const int64_t rows = gate == up ? 2 * ff : ff;
    return {StackedPart(gate, ff, rows, 0, expert, count),
            StackedPart(up, ff, rows, rows - ff, expert, count),
            StackedPart(tensors.FullName(names.down) + ".weight", d, d, 0, expert, count)};
  }
  const std::string prefix = tensors.FullName(names.experts) + "." + std::to_string(expert) + ".";
  const auto name = [&](std::string_view part) { return prefix + std::string(part) + ".weight"; };
  return {{name(names.gate), ff}, {name(names.up), ff}, {name(names.down), d}};
}

ExpertParts SharedParts(const NamedTensors& tensors) {
  const ExpertNames& names = tensors.names().experts;
  const int64_t ff = tensors.spec().experts.shared_width;
  const std::vector<WeightPart> in =
      tensors.Parts({{names.shared_gate, ff}, {names.shared_up, ff}}, ".weight");
  return {in[0], in[1],
          tensors.Parts({{names.shared_down, tensors.spec().width}}, ".weight").front()};
}

//   logits = W_router h,  h = Norm(x);  p, C: kernels/ops/experts/route.h
//   x = x + residual_multiplier * PostNorm(sum over e in C of p_e W_down,e (act(W_gate,e h) *
//       (W_up,e h)))
class MixtureOfExperts final : public FeedForward {
 public:
  void Read(const NamedTensors& tensors, LayerWeights* layer) const override {
    const ExpertNames& names = tensors.names().experts;
    const ModelSpec& spec = tensors.spec();
    const ExpertsSpec& experts = spec.experts;
    ExpertsWeights& weights = layer->experts;
    std::vector<NamedRows> router = {{names.router, experts.num_experts}};
    if (experts.shared == SharedExpert::kGated) router.push_back({names.shared_router, 1});
    weights.router = tensors.source().Exact(tensors.Parts(router, ".weight"), spec.width);
    if (experts.choice_bias) {
      weights.choice_bias = tensors.Vector({{names.choice_bias, experts.num_experts}}, "");
    }
    ReadExperts(tensors, &weights.experts);
  }

  void RaiseSizes(const StepLimits& limits, const ModelSpec& spec,
                  StepSizes* sizes) const override {
    const ExpertsSpec& experts = spec.experts;
    const int64_t rows = limits.max_rows;
    const bool shared = experts.shared != SharedExpert::kNone;
    StepSizes::Raise(sizes->hidden,
                     ExpertHiddenBytes(rows, experts.num_chosen, experts.width) +
                         (shared ? ExpertHiddenBytes(rows, 1, experts.shared_width) : 0));
    StepSizes::Raise(sizes->router_logits, experts.num_logits());
    StepSizes::Raise(sizes->routes, Routes::Bytes(rows, experts.all_experts(), experts.per_row()));
    StepSizes::Raise(sizes->workspace, RouteWorkspace(rows, experts.num_chosen));
    StepSizes::Raise(sizes->workspace,
                     ExpertWorkspace(rows, experts.per_row(), experts.all_experts(), spec.width));
  }

  LinearInput Hidden(ForwardPass& pass, size_t layer, const NormWeights& norm) const override {
    const ExpertsWeights& weights = pass.weights.layers[layer].experts;
    const ExpertsSpec& experts = pass.spec.experts;
    const LinearRows x = {.x = pass.Residual(), .norm = pass.StreamNorm(norm)};
    const Matrix logits = pass.buffers.RouterLogits(pass.num_rows, experts.num_logits());
    pass.ops.linear(
        pass.stream,
        {.in = {x, weights.router}, .num_decode_rows = pass.num_decode_rows, .out = logits});
    const Routes routes = RoutesOf(pass);
    pass.ops.route(pass.stream, {.logits = logits,
                                 .num_chosen = experts.num_chosen,
                                 .score = experts.score,
                                 .choice_bias = weights.choice_bias,
                                 .normalise = experts.normalise,
                                 .scale = experts.scale,
                                 .shared = experts.shared,
                                 .routes = routes});
    pass.ops.expert_hidden(pass.stream, {.in = x,
                                         .routes = routes,
                                         .experts = weights.experts.data(),
                                         .activation = pass.spec.activation,
                                         .hidden = pass.buffers.Hidden()});
    return {};
  }

  void AddHidden(ForwardPass& pass, size_t layer, const LinearInput&) const override {
    const LayerWeights& weights = pass.weights.layers[layer];
    const bool has_norm = weights.mlp_post_norm.weight != nullptr;
    const Matrix x = pass.Residual();
    const Matrix branch = has_norm ? pass.buffers.Branch(pass.num_rows) : x;
    pass.ops.expert_sum(pass.stream, {.routes = RoutesOf(pass),
                                      .experts = weights.experts.experts.data(),
                                      .hidden = pass.buffers.Hidden(),
                                      .scale = has_norm ? 1.0f : pass.spec.residual_multiplier,
                                      .accumulate = !has_norm,
                                      .out = branch});
    if (!has_norm) return;
    pass.ops.norm_rows(pass.stream, {.in = branch,
                                     .norm = pass.StreamNorm(weights.mlp_post_norm),
                                     .scale = pass.spec.residual_multiplier,
                                     .accumulate = true,
                                     .out = x});
  }

 private:
  static Routes RoutesOf(const ForwardPass& pass) {
    const ExpertsSpec& experts = pass.spec.experts;
    return Routes::In(pass.buffers.RouteMemory(), pass.num_rows, experts.all_experts(),
                      experts.per_row());
  }

  // Reads the weights of all experts, the shared expert last.
  static void ReadExperts(const NamedTensors& tensors, std::vector<Expert>* experts) {
    const ModelSpec& spec = tensors.spec();
    const bool shared = spec.experts.shared != SharedExpert::kNone;
    std::vector<WeightPart> in, down;
    const auto add = [&](const ExpertParts& expert) {
      in.push_back(expert.gate);
      in.push_back(expert.up);
      down.push_back(expert.down);
    };
    for (int64_t e = 0; e < spec.experts.num_experts; ++e) add(PartsOf(tensors, e));
    if (shared) add(SharedParts(tensors));
    WeightSource& source = tensors.source();
    const std::vector<PackedWeight> read_in = source.Alike(in, spec.width);
    for (size_t e = 0; e < down.size(); ++e) {
      const bool is_shared = shared && e + 1 == down.size();
      const int64_t ff = is_shared ? spec.experts.shared_width : spec.experts.width;
      experts->push_back({read_in[2 * e], read_in[2 * e + 1], source.Projection({down[e]}, ff)});
    }
  }
};

}  // namespace

const FeedForward& Experts() {
  static const MixtureOfExperts experts;
  return experts;
}

}  // namespace longstream
