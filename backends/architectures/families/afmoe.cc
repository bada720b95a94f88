// AFMoE (Arcee's Trinity): QK-norm, a gate on attention, norms on both sides of a branch, full
// attention without RoPE in every n-th layer. The first layers are dense. The others are mixtures
// of experts whose router has sigmoids, with a bias for the choice only, and a shared expert.
#include <cmath>

#include "backends/architectures/families/expert_keys.h"
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 1024;
constexpr int64_t kPatternOfConfigClass = 4;

// Refuses forms of the router that the authors' code has and transformers' class has not.
void RequireRouterOfClass(const Config& config) {
  RequireString(config, "score_func", "sigmoid");
  RequireTrue(config, "route_norm");
  for (const char* key : {"n_group", "num_expert_groups", "num_limited_groups", "topk_group"}) {
    if (config.FindInteger(key, 0, kMaxLayers).value_or(1) == 1) continue;
    config.Unsupported(key, "must be 1, found " + config.Found(key));
  }
}

void ReadAfmoeExperts(const Config& config, TransformerPlan* plan) {
  const auto num_layers = static_cast<int64_t>(plan->spec.layers.size());
  const int64_t num_dense = config.FindInteger("num_dense_layers", 0, kMaxLayers).value_or(1);
  for (const char* training : {"load_balance_coeff", "use_grouped_mm"}) config.Has(training);
  if (num_dense >= num_layers) {  // the keys of experts have no effect
    for (const char* key :
         {"moe_intermediate_size", "n_group", "num_expert_groups", "num_experts",
          "num_experts_per_tok", "num_limited_groups", "num_shared_experts", "output_router_logits",
          "route_norm", "route_scale", "score_func", "topk_group"}) {
      config.Has(key);
    }
    return;
  }
  RequireRouterOfClass(config);
  ExpertsSpec experts = ReadExperts(config, {.num_experts = 64, .num_chosen = 6, .width = 1408});
  RequireExperts(config, experts);
  const int64_t num_shared =
      config.FindInteger("num_shared_experts", 1, kMaxWidth / experts.width).value_or(2);
  experts.score = RouterScore::kSigmoid;
  experts.choice_bias = true;
  experts.normalise = true;
  experts.scale = static_cast<float>(config.FindNumber("route_scale", 1e-9, 1e9).value_or(1.0));
  experts.shared = SharedExpert::kPlain;
  experts.shared_width = num_shared * experts.width;
  SetExperts(experts, static_cast<size_t>(num_dense), plan);
}

void Read(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  std::vector<MixerSpec>& layers = spec.layers;
  ReadAfmoeExperts(config, plan);
  ReadAttentionBias(config, &spec);
  SetQkNorm(&spec);
  if (config.FindBool("mup_enabled").value_or(false)) {
    spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.width)));
  }
  const int64_t window =
      config.FindInteger("sliding_window", 1, kMaxPositions).value_or(kWindowOfConfigClass);
  const int64_t pattern = config.FindInteger("global_attn_every_n_layers", 1, kMaxLayers)
                              .value_or(kPatternOfConfigClass);
  const std::vector<bool> windows = ReadWindowPattern(config, layers.size(), pattern);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].output_gate = true;
    if (windows[i]) {
      plan->SetWindow(i, window);
    } else {
      layers[i].position = PositionKind::kNone;
    }
  }
}

}  // namespace

const Family& Afmoe() {
  static constexpr Family kFamily = {
      .model_type = "afmoe",
      .defaults = {.head_dim = 128, .norm_eps = 1e-5, .trained_to_limit = true},
      .names = {.mixer_post_norm = "post_attention_layernorm",
                .output_gate = "self_attn.gate_proj",
                .mlp_norm = "pre_mlp_layernorm",
                .mlp_post_norm = "post_mlp_layernorm",
                .experts = {.router = "mlp.router.gate",
                            .choice_bias = "mlp.expert_bias",
                            .shared_gate = "mlp.shared_experts.gate_proj",
                            .shared_up = "mlp.shared_experts.up_proj",
                            .shared_down = "mlp.shared_experts.down_proj"}},
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
