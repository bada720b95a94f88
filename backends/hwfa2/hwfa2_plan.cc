// The layer plan of hybrid window and full attention.
#include "backends/hwfa2/hwfa2_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/common/error.h"
#include "backends/common/plan/transformer_plan.h"

namespace longstream {
namespace {

constexpr int kFitOwn = 100;
constexpr int kFitDense = 40;

[[noreturn]] void InvalidOption(const std::string& problem) {
  throw BackendError(LS_INVALID_ARGUMENT, "options: " + problem);
}

std::vector<int64_t> AllLayers(int64_t num_layers) {
  std::vector<int64_t> layers(static_cast<size_t>(num_layers));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

// Indices of "full_attention" in layer_types.
std::vector<int64_t> FullLayersOfTypes(const Config& config, const std::vector<std::string>& types,
                                       int64_t num_layers) {
  if (static_cast<int64_t>(types.size()) != num_layers) {
    config.Invalid("layer_types", "must have num_hidden_layers = " + std::to_string(num_layers) +
                                      " items, found " + std::to_string(types.size()));
  }
  std::vector<int64_t> full;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "full_attention") {
      full.push_back(static_cast<int64_t>(i));
    } else if (types[i] != "sliding_attention") {
      config.Unsupported("layer_types",
                         "must hold full_attention and sliding_attention only, found \"" +
                             types[i] + "\" in layer " + std::to_string(i));
    }
  }
  return full;
}

// Indices of the full-attention layers that a config of model_type hwfa2 states.
std::vector<int64_t> FullLayersOfConfig(const Config& config, int64_t num_layers) {
  const std::optional<int64_t> count = config.FindInteger("num_full_layers", 0, num_layers);
  const std::optional<std::vector<std::string>> types = config.FindStrings("layer_types");
  if (!types) {
    if (!count) {
      config.Invalid("layer_types", "is missing, expected it or num_full_layers");
    }
    return PlaceFullLayers(num_layers, *count);
  }
  std::vector<int64_t> full = FullLayersOfTypes(config, *types, num_layers);
  if (count && *count != static_cast<int64_t>(full.size())) {
    config.Invalid("num_full_layers", "= " + std::to_string(*count) +
                                          " disagrees with layer_types, which has " +
                                          std::to_string(full.size()) + " full_attention");
  }
  return full;
}

std::vector<int64_t> FullLayers(const Config& config, const LoadOptions& options, bool dense,
                                int64_t num_layers) {
  // Read even where an option replaces it: what it says must be right, and it is known.
  std::vector<int64_t> full =
      dense ? AllLayers(num_layers) : FullLayersOfConfig(config, num_layers);
  if (dense && options.window() && !options.full_layers()) {
    InvalidOption("window needs full_layers, the layers that stay full attention ([]: none)");
  }
  if (options.full_layers()) full = *options.full_layers();
  if (!full.empty() && full.back() >= num_layers) {
    InvalidOption("full_layers must be below num_hidden_layers = " + std::to_string(num_layers) +
                  ", found " + std::to_string(full.back()));
  }
  return full;
}

PositionKind ReadFullPosition(const Config& config, bool dense) {
  if (dense) return ReadDensePosition(config);
  const std::string name = config.FindString("full_position").value_or("rerope");
  if (name == "nope") return PositionKind::kNone;
  if (name == "alibi") return PositionKind::kAlibi;
  if (name == "rope") return PositionKind::kRope;
  if (name == "rerope") return PositionKind::kRerope;
  if (name == "leaky_rerope") return PositionKind::kLeakyRerope;
  config.Unsupported("full_position", "must be rope, rerope, leaky_rerope, alibi or nope, found " +
                                          config.Found("full_position"));
}

// Refuses an option that turns keys of layers whose model was trained without RoPE.
void RequireRope(const char* option, PositionKind kind) {
  if (kind != PositionKind::kNone && kind != PositionKind::kAlibi) return;
  InvalidOption(std::string(option) + " needs layers trained with RoPE, and full_position is " +
                (kind == PositionKind::kNone ? "nope" : "alibi"));
}

// What the options make of it.
PositionKind OverriddenPosition(PositionKind kind, const LoadOptions& options) {
  const bool leaky = options.leaky_rerope_factor().has_value();
  if (!leaky && !options.rerope_window()) return kind;
  RequireRope(leaky ? "leaky_rerope_factor" : "rerope_window", kind);
  if (leaky) return PositionKind::kLeakyRerope;
  return kind == PositionKind::kRope ? PositionKind::kRerope : kind;
}

// Refuses a key of ReRoPE beside a full_position that does not read it.
void RefuseIdleKey(const Config& config, const char* key, const char* positions) {
  config.Invalid(key, std::string("acts on nothing: full_position must be ") + positions +
                          ", found " + config.Found("full_position"));
}

// Positions of the full layers, all alike. Returns whether it read the training length.
bool SetFullPosition(const Config& config, const LoadOptions& options, bool dense,
                     const ModelSpec& spec, MixerSpec* full) {
  const PositionKind stated = ReadFullPosition(config, dense);
  full->position = stated;
  if (dense && options.window()) RequireRope("window", stated);
  std::optional<int64_t> window;
  std::optional<double> factor;
  if (!dense) {
    window = config.FindInteger("rerope_window", 1, kMaxWindow);
    factor = config.FindNumber("leaky_rerope_factor", 1.0, 1e9);
    if (window && !full->rerope()) RefuseIdleKey(config, "rerope_window", "rerope or leaky_rerope");
    if (factor && stated != PositionKind::kLeakyRerope) {
      RefuseIdleKey(config, "leaky_rerope_factor", "leaky_rerope");
    }
  }
  full->position = OverriddenPosition(stated, options);
  if (options.rerope_window()) window = options.rerope_window();
  if (options.leaky_rerope_factor()) factor = options.leaky_rerope_factor();
  if (!full->rerope()) return false;
  const bool by_default = !window;
  if (by_default) {
    window = RequiredTrainingLength(config, spec, "the default rerope_window, half of it,") / 2;
  }
  full->rerope_window = static_cast<int32_t>(std::min(*window, kMaxWindow));
  if (full->position == PositionKind::kLeakyRerope) {
    if (!factor) config.Invalid("leaky_rerope_factor", "is missing, expected a number from 1");
    full->leaky_factor = *factor;
  }
  return by_default;
}

// Refuses options for a kind of layer that the plan has none of.
void RefuseIdleOptions(const LoadOptions& options, const ModelSpec& spec) {
  const auto has = [&spec](MixerKind kind) {
    return std::any_of(spec.layers.begin(), spec.layers.end(),
                       [kind](const MixerSpec& mixer) { return mixer.kind == kind; });
  };
  if (options.window() && !has(MixerKind::kWindow)) {
    RefuseIdleOption("window", "all layers are full attention");
  }
  if (has(MixerKind::kFull)) return;
  if (options.rerope_window()) RefuseIdleOption("rerope_window", "no layer is full attention");
  if (options.leaky_rerope_factor()) {
    RefuseIdleOption("leaky_rerope_factor", "no layer is full attention");
  }
}

}  // namespace

std::vector<int64_t> PlaceFullLayers(int64_t num_layers, int64_t num_full_layers) {
  std::vector<int64_t> full;
  for (int64_t k = 1; k <= num_full_layers; ++k) {
    full.push_back(k * num_layers / (num_full_layers + 1));
  }
  return full;
}

int Hwfa2Fit(const Config& config, std::string* why) {
  if (config.FindString("model_type") == "hwfa2") return kFitOwn;
  if (FindFamily(config) != nullptr) return kFitDense;
  *why = config.file() + ": model_type must be hwfa2 or one of " + FamilyNames() +
         " for the backend hwfa2, found " + config.Found("model_type");
  return 0;
}

ModelSpec Hwfa2Plan(const Config& config, const LoadOptions& options) {
  const Family* dense = FindFamily(config);
  Family own = {.model_type = "hwfa2"};
  if (dense == nullptr) {
    if (config.String("model_type") != own.model_type) {
      config.Unsupported("model_type", "must be hwfa2 or one of " + FamilyNames() +
                                           " for the backend hwfa2, found " +
                                           config.Found("model_type"));
    }
    own.qk_norm = config.FindBool("use_qk_norm").value_or(true);
  }
  const bool is_dense = dense != nullptr;
  ModelSpec spec = TransformerSpec(config, options, is_dense ? *dense : own);
  const auto num_layers = static_cast<int64_t>(spec.layers.size());

  MixerSpec full = spec.layers.front();
  const bool default_rerope = SetFullPosition(config, options, is_dense, spec, &full);
  MixerSpec local = spec.layers.front();
  local.kind = MixerKind::kWindow;
  std::optional<int64_t> window =
      is_dense ? std::nullopt : config.FindInteger("sliding_window", 1, kMaxWindow);
  if (options.window()) window = options.window();
  local.window = static_cast<int32_t>(window.value_or(0));

  const std::vector<int64_t> full_layers = FullLayers(config, options, is_dense, num_layers);
  spec.layers.assign(spec.layers.size(), local);
  for (const int64_t i : full_layers) spec.layers[static_cast<size_t>(i)] = full;
  if (!window && static_cast<int64_t>(full_layers.size()) < num_layers) {
    if (is_dense) InvalidOption("full_layers needs window, the keys that the other layers see");
    config.Invalid("sliding_window", "is missing, expected the keys that a window layer sees");
  }
  RefuseIdleOptions(options, spec);
  ApplyLogN(config, options, &spec);
  RefuseIdleTrainingLength(options, spec, default_rerope && !full_layers.empty());
  config.RefuseUnknown("the backend hwfa2");
  return spec;
}

}  // namespace longstream
