// SmolLM3: some layers have no RoPE, by default every fourth.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

// Whether each layer has RoPE: its entry in no_rope_layers is 0 if it has none.
std::vector<bool> LayersWithRope(const Config& config, size_t num_layers) {
  const int64_t interval = config.FindInteger("no_rope_layer_interval", 1, kMaxLayers).value_or(4);
  const std::optional<std::vector<int64_t>> listed = config.FindIntegers("no_rope_layers", 0, 1);
  if (listed && listed->size() < num_layers) {
    config.Invalid("no_rope_layers", "must have num_hidden_layers = " + std::to_string(num_layers) +
                                         " items, found " + std::to_string(listed->size()));
  }
  std::vector<bool> rope;
  rope.reserve(num_layers);
  for (size_t i = 0; i < num_layers; ++i) {
    rope.push_back(listed ? (*listed)[i] == 1 : (static_cast<int64_t>(i) + 1) % interval != 0);
  }
  return rope;
}

void Read(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  ReadAttentionBias(config, &spec);
  ReadMlpBias(config, &spec);
  config.FindInteger("max_window_layers", 0, kMaxLayers);  // no effect in this family
  const std::vector<bool> rope = LayersWithRope(config, spec.layers.size());
  const WindowKeys keys = ReadUseSlidingWindow(config, spec.layers.size(), /*absent=*/{});
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!rope[i]) spec.layers[i].position = PositionKind::kNone;
    // Without layer_types, the layers without RoPE have the windows.
    const bool in_window = keys.layers ? (*keys.layers)[i] : !rope[i];
    if (keys.window && in_window) plan->SetWindow(i, *keys.window);
  }
}

}  // namespace

const Family& SmolLm3() {
  static constexpr Family kFamily = {
      .model_type = "smollm3",
      .defaults = {.rope = {.theta = 2000000.0}, .tied_head = true, .trained_to_limit = true},

      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
