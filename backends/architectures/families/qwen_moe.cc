// Qwen1.5-MoE and Qwen2-57B-A14B (qwen2_moe), and Qwen3's mixtures of experts (qwen3_moe, arXiv
// 2505.09388).
#include <optional>
#include <vector>

#include "backends/architectures/families/expert_keys.h"
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 4096;

// Windows are in every second layer, from the first on, below max_window_layers.
void ReadQwen2Windows(const Config& config, TransformerPlan* plan) {
  const size_t num_layers = plan->spec.layers.size();
  const int64_t end = config.FindInteger("max_window_layers", 0, kMaxLayers).value_or(28);
  const WindowKeys keys = ReadUseSlidingWindow(config, num_layers, kWindowOfConfigClass);
  if (!keys.window) return;
  for (size_t i = 0; i < num_layers; ++i) {
    const bool by_rule = i % 2 == 0 && static_cast<int64_t>(i) < end;
    if (keys.layers ? (*keys.layers)[i] : by_rule) plan->SetWindow(i, *keys.window);
  }
}

void ReadQwen2(const Config& config, TransformerPlan* plan) {
  RequireFalse(config, "mlp_bias");
  config.Has("dual_chunk_attention_config");  // no effect, as in transformers
  const bool bias = config.FindBool("qkv_bias").value_or(true);
  for (MixerSpec& mixer : plan->spec.layers) mixer.qkv_bias = bias;
  ReadQwen2Windows(config, plan);
  ExpertsSpec experts = ReadExperts(config, {.num_experts = 60, .num_chosen = 4, .width = 1408});
  experts.normalise = config.FindBool("norm_topk_prob").value_or(false);
  experts.shared = SharedExpert::kGated;
  experts.shared_width =
      config.FindInteger("shared_expert_intermediate_size", 1, kMaxWidth).value_or(5632);
  SetQwenExperts(config, experts, plan);
}

void ReadQwen3(const Config& config, TransformerPlan* plan) {
  ReadAttentionBias(config, &plan->spec);
  RequireFalse(config, "mlp_bias");
  SetQkNorm(&plan->spec);
  config.Has("dual_chunk_attention_config");  // no effect, as in transformers
  config.Has("max_window_layers");            // no effect: windows are in all layers or in none
  const bool use = config.FindBool("use_sliding_window").value_or(false);
  const std::optional<int64_t> window =
      config.FindInteger("sliding_window", use ? 1 : 0, kMaxPositions);
  if (use && !config.IsNull("sliding_window")) {
    for (size_t i = 0; i < plan->spec.layers.size(); ++i) {
      plan->SetWindow(i, window.value_or(kWindowOfConfigClass));
    }
  }
  ExpertsSpec experts = ReadExperts(config, {.num_experts = 128, .num_chosen = 8, .width = 768});
  experts.normalise = config.FindBool("norm_topk_prob").value_or(false);
  SetQwenExperts(config, experts, plan);
}

}  // namespace

const Family& Qwen2Moe() {
  static constexpr Family kFamily = {.model_type = "qwen2_moe",
                                     .defaults = {.num_kv_heads = 16,
                                                  .rope = {.dictionary = RopeDictionary::kOne},
                                                  .trained_to_limit = true},
                                     .read = ReadQwen2};
  return kFamily;
}

const Family& Qwen3Moe() {
  static constexpr Family kFamily = {.model_type = "qwen3_moe",
                                     .defaults = {.num_kv_heads = 4,
                                                  .rope = {.dictionary = RopeDictionary::kOne},
                                                  .trained_to_limit = true},
                                     .read = ReadQwen3};
  return kFamily;
}

}  // namespace longstream::families
