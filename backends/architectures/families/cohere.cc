// Command R and R+ (model_type cohere) and Command R7B, Command A (cohere2): attention and MLP
// share one LayerNorm, and their outputs are added; pairs of RoPE are neighbours; logits are
// multiplied by a number. Command R+ norms queries and keys. Models of type cohere2 have windows,
// and some full-attention layers without RoPE.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 4096;
constexpr int64_t kPatternOfConfigClass = 4;
constexpr TensorNames kNames = {.mlp_norm = ""};
constexpr RopeDefaults kCohereRope = {
    .theta = 500000.0, .theta_before_5 = 10000.0, .dictionary = RopeDictionary::kOne};
constexpr TransformerDefaults kCohereDefaults = {
    .rope = kCohereRope, .tied_head = true, .trained_to_limit = true};
constexpr TransformerDefaults kCohere2Defaults = {.tied_head = true, .trained_to_limit = true};

void ReadBoth(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  ReadAttentionBias(config, &spec);
  for (const char* key : {"mlp_bias", "use_parallel_embedding"}) RequireFalse(config, key);
  // The authors' config files have these keys.
  for (const char* key : {"use_embedding_sharing", "use_gated_activation", "use_parallel_block"}) {
    RequireTrue(config, key);
  }
  RequireString(config, "position_embedding_type", "rope_gptj");
  if (config.FindNumber("rotary_pct", 0.0, 1.0).value_or(1.0) != 1.0) {
    config.Unsupported("rotary_pct", "must be 1, found " + config.Found("rotary_pct"));
  }
  spec.layer_norm = true;
  spec.parallel = true;
  spec.norm_eps = static_cast<float>(config.FindNumber("layer_norm_eps", 0.0, 1.0).value_or(1e-5));
  spec.logit_multiplier =
      static_cast<float>(config.FindNumber("logit_scale", 1e-9, 1e9).value_or(0.0625));
  SetNeighbours(plan);
}

void ReadCohere(const Config& config, TransformerPlan* plan) {
  ReadBoth(config, plan);
  if (!config.FindBool("use_qk_norm").value_or(false)) return;
  for (MixerSpec& mixer : plan->spec.layers) mixer.qk_norm = QkNorm::kEachHead;
}

// The number has three names. transformers reads one of them; the authors' files have the others.
int64_t Pattern(const Config& config) {
  const int64_t pattern =
      config.FindInteger("sliding_window_pattern", 1, kMaxLayers).value_or(kPatternOfConfigClass);
  for (const char* key : {"_sliding_window_pattern", "layer_switch"}) {
    if (config.FindInteger(key, 1, kMaxLayers).value_or(pattern) == pattern) continue;
    if (config.Has("layer_types")) continue;
    config.Unsupported(key, "must be sliding_window_pattern = " + std::to_string(pattern) +
                                ", found " + config.Found(key));
  }
  return pattern;
}

void ReadCohere2(const Config& config, TransformerPlan* plan) {
  ReadBoth(config, plan);
  RequireFalse(config, "use_qk_norm");
  RequireString(config, "order_of_interleaved_layers", "local_attn_first");
  const int64_t window =
      config.FindInteger("sliding_window", 1, kMaxPositions).value_or(kWindowOfConfigClass);
  std::vector<MixerSpec>& layers = plan->spec.layers;
  const std::vector<bool> windows = ReadWindowPattern(config, layers.size(), Pattern(config));
  for (size_t i = 0; i < layers.size(); ++i) {
    if (windows[i]) {
      plan->SetWindow(i, window);
    } else {
      layers[i].position = PositionKind::kNone;
    }
  }
}

}  // namespace

const Family& Cohere() {
  static constexpr Family kFamily = {
      .model_type = "cohere", .defaults = kCohereDefaults, .names = kNames, .read = ReadCohere};
  return kFamily;
}

const Family& Cohere2() {
  static constexpr Family kFamily = {
      .model_type = "cohere2", .defaults = kCohere2Defaults, .names = kNames, .read = ReadCohere2};
  return kFamily;
}

}  // namespace longstream::families
