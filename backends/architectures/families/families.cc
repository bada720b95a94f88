// The families that are served, and the code that reads one of them.
#include <algorithm>

#include "backends/architectures/families/family.h"
#include "backends/errors/error.h"

namespace longstream {

// Each of these functions is defined in the file of its name.
namespace families {
const Family& Afmoe();
const Family& Bloom();
const Family& Cohere();
const Family& Cohere2();
const Family& Exaone4();
const Family& Gemma();
const Family& Gemma2();
const Family& Gemma3Text();
const Family& Glm();
const Family& Granite();
const Family& Llama();
const Family& Mistral();
const Family& Mpt();
const Family& Olmo2();
const Family& Olmo3();
const Family& Phi3();
const Family& Qwen2();
const Family& Qwen3();
const Family& SmolLm3();
}  // namespace families

namespace {

constexpr const Family& (*kFamilies[])() = {
    families::Afmoe, families::Bloom,   families::Cohere,     families::Cohere2, families::Exaone4,
    families::Gemma, families::Gemma2,  families::Gemma3Text, families::Glm,     families::Granite,
    families::Llama, families::Mistral, families::Mpt,        families::Olmo2,   families::Olmo3,
    families::Phi3,  families::Qwen2,   families::Qwen3,      families::SmolLm3,
};

constexpr int64_t kWindowOfQwensClass = 4096;

PositionKind ReadFullPosition(const Config& config) {
  const std::string name = config.String("full_position");
  if (name == "rope") return PositionKind::kRope;
  if (name == "alibi") return PositionKind::kAlibi;
  if (name == "nope") return PositionKind::kNone;
  config.Unsupported("full_position",
                     "must be rope, alibi or nope, found " + config.Found("full_position"));
}

}  // namespace

Config TextConfig(const Config& config) {
  if (config.FindString("model_type") != "gemma3") return config;
  RefuseOtherQuantisation(config);
  config.IgnoreUnknown();
  Config text = config.Object("text_config");
  // This key counts for the whole model; the one in text_config has no effect.
  if (!config.FindBool("tie_word_embeddings").value_or(true)) {
    config.Unsupported("tie_word_embeddings", "must be true, found false");
  }
  config.RefuseUnknown(
      "the text model of gemma3",
      {"boi_token_i*", "eoi_token_i*", "image_token_i*", "mm_tokens_per_image", "vision_config"});
  return text;
}

const Family* FindFamily(const Config& config) {
  const std::string model_type = config.FindString("model_type").value_or("");
  for (const auto& family : kFamilies) {
    if (family().model_type == model_type) return &family();
  }
  return nullptr;
}

std::string FamilyNames() {
  std::string names;
  for (const auto& family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(family().model_type);
  }
  return names;
}

NoFamily WhyNoFamily(const Config& config, std::string_view backend, std::string_view besides) {
  for (const char* experts : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (!config.Has(experts)) continue;
    return {experts, "= " + config.Found(experts) + " of model_type " + config.Found("model_type") +
                         ": mixtures of experts are not served"};
  }
  const std::string also = besides.empty() ? "" : std::string(besides) + " or ";
  return {"model_type", "must be " + also + "one of " + FamilyNames() + " for the backend " +
                            std::string(backend) + ", found " + config.Found("model_type")};
}

TransformerPlan ReadFamily(const Config& config, const LoadOptions& options, const Family& family) {
  // Gated attention units are a form of this project, so no other class reads such a config.
  const bool is_own = config.FindString("block_type") == "gau";
  if (!is_own) config.IgnoreUnknown();
  RequireTrue(config, "is_causal");
  TransformerDefaults defaults = family.defaults;
  if (!is_own) defaults.rope.rotates_parts = family.rotates_parts;
  TransformerPlan plan = ReadTransformer(config, options, family.model_type, defaults);
  if (!plan.spec.layers.front().gau) plan.spec.names = family.names;
  family.read(config, &plan);
  for (MixerSpec& mixer : plan.spec.layers) {
    if (mixer.kind == MixerKind::kWindow && mixer.window >= plan.spec.context_limit) {
      mixer.kind = MixerKind::kFull;
      mixer.window = 0;
    }
  }
  if (!config.Has("full_position")) return plan;
  const PositionKind position = ReadFullPosition(config);
  for (MixerSpec& mixer : plan.spec.layers) {
    if (mixer.kind == MixerKind::kFull) mixer.position = position;
  }
  return plan;
}

bool HasWindows(const Config& config, const Family& family) {
  try {
    const TransformerPlan plan = ReadFamily(config, LoadOptions(), family);
    return std::any_of(plan.spec.layers.begin(), plan.spec.layers.end(),
                       [](const MixerSpec& mixer) { return mixer.kind == MixerKind::kWindow; });
  } catch (const BackendError&) {
    return false;
  }
}

WindowKeys ReadUseSlidingWindow(const Config& config, size_t num_layers,
                                std::optional<int64_t> absent) {
  const bool use = config.FindBool("use_sliding_window").value_or(false);
  const std::optional<int64_t> window =
      config.FindInteger("sliding_window", use ? 1 : 0, kMaxPositions);
  WindowKeys keys;
  keys.layers = FindWindowLayers(config, num_layers);
  if (use) keys.window = window || config.IsNull("sliding_window") ? window : absent;
  const bool asked = keys.layers && std::find(keys.layers->begin(), keys.layers->end(), true) !=
                                        keys.layers->end();
  if (asked && !keys.window) {
    config.Invalid("layer_types",
                   "asks for sliding_attention, expected use_sliding_window = true and "
                   "sliding_window beside it, found " +
                       config.Found("use_sliding_window") + " and " +
                       config.Found("sliding_window"));
  }
  return keys;
}

void ReadQwenAttention(const Config& config, TransformerPlan* plan) {
  config.Has("dual_chunk_attention_config");
  const size_t num_layers = plan->spec.layers.size();
  const int64_t first = config.FindInteger("max_window_layers", 0, kMaxLayers).value_or(28);
  const WindowKeys keys = ReadUseSlidingWindow(config, num_layers, kWindowOfQwensClass);
  if (!keys.window) return;
  for (size_t i = 0; i < num_layers; ++i) {
    const bool in_window = keys.layers ? (*keys.layers)[i] : static_cast<int64_t>(i) >= first;
    if (in_window) plan->SetWindow(i, *keys.window);
  }
}

std::vector<bool> ReadWindowPattern(const Config& config, size_t num_layers, int64_t pattern) {
  std::optional<std::vector<bool>> listed = FindWindowLayers(config, num_layers);
  if (listed) return *std::move(listed);
  std::vector<bool> windows;
  windows.reserve(num_layers);
  for (size_t i = 0; i < num_layers; ++i) {
    windows.push_back(pattern > 0 && (static_cast<int64_t>(i) + 1) % pattern != 0);
  }
  return windows;
}

void SetAlibiAndLayerNorm(const Config& config, ModelSpec* spec) {
  spec->layer_norm = true;
  spec->norm_eps =
      static_cast<float>(config.FindNumber("layer_norm_epsilon", 0.0, 1.0).value_or(1e-5));
  for (MixerSpec& mixer : spec->layers) mixer.position = PositionKind::kAlibi;
}

void SetNeighbours(TransformerPlan* plan) {
  plan->full_rope.neighbours = plan->window_rope.neighbours = true;
  for (MixerSpec& mixer : plan->spec.layers) mixer.rope.neighbours = true;
}

void ReadWindowOfAllLayers(const Config& config, int64_t absent, TransformerPlan* plan) {
  const std::optional<int64_t> stated = config.FindInteger("sliding_window", 1, kMaxPositions);
  const int64_t window = stated.value_or(config.IsNull("sliding_window") ? 0 : absent);
  if (window == 0) return;
  for (size_t i = 0; i < plan->spec.layers.size(); ++i) plan->SetWindow(i, window);
}

}  // namespace longstream
