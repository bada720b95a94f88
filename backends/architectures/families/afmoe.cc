// AFMoE (Arcee's Trinity), if its layers are dense: QK-norm, a gate on attention, norms on both
// sides of a branch, full attention without RoPE in every n-th layer.
#include <cmath>

#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 1024;
constexpr int64_t kPatternOfConfigClass = 4;

// Refuses layers that are mixtures of experts. In a model without such layers, the keys of experts
// have no effect.
void RequireDense(const Config& config, size_t num_layers) {
  const auto layers = static_cast<int64_t>(num_layers);
  if (config.FindInteger("num_dense_layers", 0, kMaxLayers).value_or(1) < layers) {
    config.Unsupported("num_dense_layers", "must be num_hidden_layers = " + std::to_string(layers) +
                                               ", for mixtures of experts are not served, found " +
                                               config.Found("num_dense_layers"));
  }
  for (const char* key :
       {"load_balance_coeff", "moe_intermediate_size", "n_group", "num_expert_groups",
        "num_experts", "num_experts_per_tok", "num_limited_groups", "num_shared_experts",
        "output_router_logits", "route_norm", "route_scale", "score_func", "topk_group",
        "use_grouped_mm"}) {
    config.Has(key);
  }
}

void Read(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  std::vector<MixerSpec>& layers = spec.layers;
  RequireDense(config, layers.size());
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
                .mlp_post_norm = "post_mlp_layernorm"},
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
