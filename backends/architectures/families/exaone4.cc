// EXAONE 4: norms only behind the branches, RMSNorm per head on q and k. Models with windows have
// some full-attention layers without RoPE.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kWindowOfConfigClass = 4096;
constexpr int64_t kPatternOfConfigClass = 4;

// Whether each layer has a window. layer_types states it. Without layer_types, every layer has one
// except every sliding_window_pattern-th layer.
std::vector<bool> WindowLayers(const Config& config, size_t num_layers) {
  int64_t pattern = kPatternOfConfigClass;
  if (config.IsString("sliding_window_pattern")) {  // "LLLG": of four layers, the last is full
    const std::string text = config.String("sliding_window_pattern");
    pattern = static_cast<int64_t>(text.size());
    if (text.empty() || text.find_first_not_of('L') + 1 != text.size() || text.back() != 'G') {
      config.Unsupported("sliding_window_pattern",
                         "must be a number or letters L before one G, found " +
                             config.Found("sliding_window_pattern"));
    }
  } else {
    pattern = config.FindInteger("sliding_window_pattern", 0, kMaxLayers).value_or(pattern);
  }
  return ReadWindowPattern(config, num_layers, pattern);
}

void Read(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  RequireFalse(config, "attention_bias");
  RequireFalse(config, "mlp_bias");
  RequireTrue(config, "reorder_qk_norm");                  // means norms behind the branches
  config.FindInteger("max_window_layers", 0, kMaxLayers);  // no effect in this family
  SetQkNorm(&spec);
  const std::optional<int64_t> stated = config.FindInteger("sliding_window", 1, kMaxPositions);
  const std::vector<bool> windows = WindowLayers(config, spec.layers.size());
  if (config.IsNull("sliding_window")) return;  // a model without windows has RoPE in every layer
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (windows[i]) {
      plan->SetWindow(i, stated.value_or(kWindowOfConfigClass));
    } else {
      spec.layers[i].position = PositionKind::kNone;
    }
  }
}

}  // namespace

const Family& Exaone4() {
  static constexpr Family kFamily = {.model_type = "exaone4",
                                     .defaults = {.norm_eps = 1e-5, .trained_to_limit = true},
                                     .names = {.mixer_norm = "",
                                               .mixer_post_norm = "post_attention_layernorm",
                                               .mlp_norm = "",
                                               .mlp_post_norm = "post_feedforward_layernorm"},
                                     .read = Read};
  return kFamily;
}

}  // namespace longstream::families
