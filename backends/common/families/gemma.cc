// Gemma (arXiv 2403.08295) and the text models of Gemma 3 (arXiv 2503.19786): norms that multiply
// by 1 + w, embeddings times the root of the width, GELU; Gemma 3 norms branches on both sides, and
// has windows with a base of their own.
#include <cmath>

#include "backends/common/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 4096;
constexpr int64_t kPatternOfConfigClass = 6;

void ReadGemma(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  ReadAttentionBias(config, &spec);
  RequireFalse(config, "mlp_bias");
  RequireFalse(config, "use_bidirectional_attention");
  spec.norms_less_one = true;
  spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.width)));
  // Where both are there, this one counts.
  spec.activation = FindActivation(config, "hidden_activation").value_or(spec.activation);
}

void RequireNoSoftcap(const Config& config, std::string_view key) {
  if (config.Has(key)) config.Unsupported(key, "must be null, found " + config.Found(key));
}

void ReadGemma3(const Config& config, TransformerPlan* plan) {
  ReadGemma(config, plan);
  ModelSpec& spec = plan->spec;
  SetQkNorm(&spec);
  RequireNoSoftcap(config, "attn_logit_softcapping");
  RequireNoSoftcap(config, "final_logit_softcapping");
  const double scalar = config.FindNumber("query_pre_attn_scalar", 1e-9, 1e9).value_or(256.0);
  for (MixerSpec& mixer : spec.layers) mixer.score_scale = 1.0 / std::sqrt(scalar);

  const double local = config.FindNumber("rope_local_base_freq", 1.0, 1e15).value_or(10000.0);
  SetPlainWindowRope(config, local, plan);
  config.FindInteger("_sliding_window_pattern", 1, kMaxLayers);  // beside layer_types
  const int64_t pattern =
      config.FindInteger("sliding_window_pattern", 1, kMaxLayers).value_or(kPatternOfConfigClass);
  const int64_t window =
      config.FindInteger("sliding_window", 1, kMaxPositions).value_or(kWindowOfConfigClass);
  const std::vector<bool> windows = ReadWindowPattern(config, spec.layers.size(), pattern);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (windows[i]) plan->SetWindow(i, window);
  }
}

// gemma3_text alone, and beside a vision model as newer and older releases write it.
constexpr TensorRoot kGemma3Roots[] = {{"model.", "lm_head"},
                                       {"model.language_model.", "lm_head"},
                                       {"language_model.model.", "language_model.lm_head"}};
constexpr std::string_view kVision[] = {"model.vision_tower.", "model.multi_modal_projector.",
                                        "vision_tower.", "multi_modal_projector."};

constexpr TransformerDefaults kDefaults = {.head_dim = 256,
                                           .tied_head = true,
                                           .activation = Activation::kGeluTanh,
                                           .gelu_is_tanh = true,
                                           .trained_to_limit = true};

}  // namespace

const Family& Gemma() {
  static constexpr Family kFamily = {
      .model_type = "gemma", .defaults = kDefaults, .read = ReadGemma};
  return kFamily;
}

const Family& Gemma3Text() {
  static constexpr Family kFamily = {.model_type = "gemma3_text",
                                     .defaults = {.vocabulary = 262208,
                                                  .num_heads = 8,
                                                  .num_kv_heads = 4,
                                                  .context_limit = 131072,
                                                  .head_dim = 256,
                                                  .rope_theta = 1000000.0,
                                                  .tied_head = true,
                                                  .activation = Activation::kGeluTanh,
                                                  .trained_to_limit = true},
                                     .names = {.roots = kGemma3Roots,
                                               .ignored = kVision,
                                               .mixer_post_norm = "post_attention_layernorm",
                                               .mlp_norm = "pre_feedforward_layernorm",
                                               .mlp_post_norm = "post_feedforward_layernorm"},
                                     .read = ReadGemma3};
  return kFamily;
}

}  // namespace longstream::families
