// OLMo 2 (arXiv 2501.00656) and OLMo 3: norms only behind the branches; q and k have a norm over
// all heads. OLMo 3 has windows, and scales RoPE in full attention only.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 4096;
constexpr int64_t kPatternOfConfigClass = 4;
constexpr TensorNames kNames = {.mixer_norm = "",
                                .mixer_post_norm = "post_attention_layernorm",
                                .mlp_norm = "",
                                .mlp_post_norm = "post_feedforward_layernorm"};

void ReadOlmo2(const Config& config, TransformerPlan* plan) {
  ReadAttentionBias(config, &plan->spec);
  RequireFalse(config, "mlp_bias");
  for (MixerSpec& mixer : plan->spec.layers) mixer.qk_norm = QkNorm::kAllHeads;
}

void ReadOlmo3(const Config& config, TransformerPlan* plan) {
  ReadOlmo2(config, plan);
  const size_t num_layers = plan->spec.layers.size();
  const std::vector<bool> windows = ReadWindowPattern(config, num_layers, kPatternOfConfigClass);
  const int64_t window =
      config.FindInteger("sliding_window", 1, kMaxPositions).value_or(kWindowOfConfigClass);
  for (size_t i = 0; i < num_layers; ++i) {
    if (windows[i]) plan->SetWindow(i, window);
  }
}

}  // namespace

const Family& Olmo2() {
  static constexpr Family kFamily = {.model_type = "olmo2",
                                     .defaults = {.rope = {.dictionary = RopeDictionary::kOne},
                                                  .norm_eps = 1e-5,
                                                  .trained_to_limit = true},
                                     .names = kNames,
                                     .read = ReadOlmo2};
  return kFamily;
}

const Family& Olmo3() {
  static constexpr Family kFamily = {
      .model_type = "olmo3",
      .defaults = {.rope = {.theta = 500000.0,
                            .theta_before_5 = 10000.0,
                            .dictionary = RopeDictionary::kByLayerType,
                            .window_theta = 500000.0},
                   .norm_eps = 1e-5,
                   .trained_to_limit = true},
      .names = kNames,
      .read = ReadOlmo3};
  return kFamily;
}

}  // namespace longstream::families
