// Gemma (arXiv 2403.08295), Gemma 2 (arXiv 2408.00118) and the text models of Gemma 3 (arXiv
// 2503.19786): norms multiply by 1 + w, embeddings are multiplied by the root of the width, GELU.
// Gemma 2 and 3 have norms on both sides of a branch, and windows. Gemma 2 caps scores and logits
// softly; in Gemma 3, windows have their own RoPE base.
#include <cmath>

#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 4096;
constexpr int64_t kGemma2Pattern = 2;
constexpr int64_t kGemma3Pattern = 6;  // of Gemma 3's config class

void ReadGemma(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  ReadAttentionBias(config, &spec);
  RequireFalse(config, "mlp_bias");
  RequireFalse(config, "use_bidirectional_attention");
  spec.norms_less_one = true;
  spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.width)));
}

// Gemma's class reads hidden_act; the classes of Gemma 2 and 3 read hidden_activation. Many configs
// have both keys.
void WarnOfOtherActivation(const Config& config, const char* other, const ModelSpec& spec) {
  const std::optional<std::string> name = config.FindString(other);
  const bool is_early_tanh = name == "gelu" && spec.activation == Activation::kGeluTanh;
  if (!name || is_early_tanh || FindActivation(config, other) == spec.activation) return;
  config.Warn(other, "= " + config.Found(other) + " has no effect in this family");
}

void ReadGemma1(const Config& config, TransformerPlan* plan) {
  ReadGemma(config, plan);
  WarnOfOtherActivation(config, "hidden_activation", plan->spec);
}

void ReadHiddenActivation(const Config& config, ModelSpec* spec) {
  spec->activation = FindActivation(config, "hidden_activation").value_or(Activation::kGeluTanh);
  WarnOfOtherActivation(config, "hidden_act", *spec);
}

// The cap that the key states: 0, which means no cap, if the key is null; `absent` if it is absent.
double ReadSoftcap(const Config& config, std::string_view key, double absent) {
  return config.FindNumber(key, 1e-3, 1e9).value_or(config.IsNull(key) ? 0.0 : absent);
}

// Reads keys that Gemma 2 and 3 have in common. `cap` is the cap of logits if its key is absent.
void ReadCapAndScale(const Config& config, double cap, ModelSpec* spec) {
  spec->logit_softcap = static_cast<float>(ReadSoftcap(config, "final_logit_softcapping", cap));
  const double scalar = config.FindNumber("query_pre_attn_scalar", 1e-9, 1e9).value_or(256.0);
  for (MixerSpec& mixer : spec->layers) mixer.score_scale = 1.0 / std::sqrt(scalar);
}

void ReadWindows(const Config& config, int64_t pattern, TransformerPlan* plan) {
  config.Has("sliding_window_size");  // early releases of Gemma 2 repeat the window under this name
  const int64_t window =
      config.FindInteger("sliding_window", 1, kMaxPositions).value_or(kWindowOfConfigClass);
  const size_t num_layers = plan->spec.layers.size();
  const std::vector<bool> windows = ReadWindowPattern(config, num_layers, pattern);
  for (size_t i = 0; i < num_layers; ++i) {
    if (windows[i]) plan->SetWindow(i, window);
  }
}

void ReadGemma2(const Config& config, TransformerPlan* plan) {
  ReadGemma(config, plan);
  ReadHiddenActivation(config, &plan->spec);
  ReadCapAndScale(config, /*cap=*/30.0, &plan->spec);
  const double cap = ReadSoftcap(config, "attn_logit_softcapping", /*absent=*/50.0);
  for (MixerSpec& mixer : plan->spec.layers) mixer.softcap = cap;
  ReadWindows(config, kGemma2Pattern, plan);
}

void ReadGemma3(const Config& config, TransformerPlan* plan) {
  ReadGemma(config, plan);
  SetQkNorm(&plan->spec);
  ReadHiddenActivation(config, &plan->spec);
  ReadCapAndScale(config, /*cap=*/0.0, &plan->spec);
  // The class declares this key, but its attention does not apply it.
  if (config.Has("attn_logit_softcapping")) {
    config.Warn("attn_logit_softcapping",
                "= " + config.Found("attn_logit_softcapping") + " has no effect in this family");
  }
  config.FindInteger("_sliding_window_pattern", 1, kMaxLayers);  // no effect beside layer_types
  const int64_t pattern =
      config.FindInteger("sliding_window_pattern", 1, kMaxLayers).value_or(kGemma3Pattern);
  ReadWindows(config, pattern, plan);
}

// The roots of a checkpoint with gemma3_text alone, and of one with a vision model too, as newer
// and as older releases write it.
constexpr TensorRoot kGemma3Roots[] = {{"model.", "lm_head"},
                                       {"model.language_model.", "lm_head"},
                                       {"language_model.model.", "language_model.lm_head"}};
constexpr std::string_view kVision[] = {"model.vision_tower.", "model.multi_modal_projector.",
                                        "vision_tower.", "multi_modal_projector."};

constexpr TransformerDefaults kDefaults = {.head_dim = 256,
                                           .rope = {.dictionary = RopeDictionary::kOne},
                                           .tied_head = true,
                                           .activation = Activation::kGeluTanh,
                                           .gelu_is_tanh = true,
                                           .trained_to_limit = true};

// Norms on both sides of a branch.
constexpr TensorNames kSandwich = {.mixer_post_norm = "post_attention_layernorm",
                                   .mlp_norm = "pre_feedforward_layernorm",
                                   .mlp_post_norm = "post_feedforward_layernorm"};

constexpr TensorNames Gemma3Names() {
  TensorNames names = kSandwich;
  names.roots = kGemma3Roots;
  names.ignored = kVision;
  return names;
}

}  // namespace

const Family& Gemma() {
  static constexpr Family kFamily = {
      .model_type = "gemma", .defaults = kDefaults, .read = ReadGemma1};
  return kFamily;
}

const Family& Gemma2() {
  static constexpr Family kFamily = {.model_type = "gemma2",
                                     .defaults = {.head_dim = 256,
                                                  .tied_head = true,
                                                  .activation = Activation::kGeluTanh,
                                                  .gelu_is_tanh = true,
                                                  .trained_to_limit = true},
                                     .names = kSandwich,
                                     .read = ReadGemma2};
  return kFamily;
}

const Family& Gemma3Text() {
  static constexpr Family kFamily = {
      .model_type = "gemma3_text",
      .defaults = {.vocabulary = 262208,
                   .num_heads = 8,
                   .num_kv_heads = 4,
                   .context_limit = 131072,
                   .head_dim = 256,
                   .rope = {.theta = 1000000.0,
                            .dictionary = RopeDictionary::kByLayerType,
                            .window_theta_key = "rope_local_base_freq"},
                   .tied_head = true,
                   .activation = Activation::kGeluTanh,
                   .gelu_is_tanh = true,
                   .trained_to_limit = true},
      .names = Gemma3Names(),
      .read = ReadGemma3};
  return kFamily;
}

}  // namespace longstream::families
