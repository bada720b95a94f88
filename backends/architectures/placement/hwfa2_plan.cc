// The spec of hybrid window and full attention.
#include "backends/architectures/placement/hwfa2_plan.h"

#include <algorithm>
#include <optional>

#include "backends/architectures/families/family.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

constexpr int kFitOwn = 100;
constexpr int kFitDense = 40;

[[noreturn]] void InvalidOption(const std::string& problem) {
  throw BackendError(LS_INVALID_ARGUMENT, "options: " + problem);
}

// Indices of the full-attention layers in a config of model_type hwfa2.
std::vector<int64_t> FullLayersOfConfig(const Config& config, int64_t num_layers) {
  const std::optional<int64_t> count = config.FindInteger("num_full_layers", 0, num_layers);
  const std::optional<std::vector<bool>> windows =
      FindWindowLayers(config, static_cast<size_t>(num_layers));
  if (!windows) {
    if (!count) {
      config.Invalid("layer_types", "is missing, expected it or num_full_layers");
    }
    return PlaceFullLayers(num_layers, *count);
  }
  std::vector<int64_t> full;
  for (size_t i = 0; i < windows->size(); ++i) {
    if (!(*windows)[i]) full.push_back(static_cast<int64_t>(i));
  }
  if (count && *count != static_cast<int64_t>(full.size())) {
    config.Invalid("num_full_layers", "= " + std::to_string(*count) +
                                          " disagrees with layer_types, which has " +
                                          std::to_string(full.size()) + " full_attention");
  }
  return full;
}

PositionKind ReadFullPosition(const Config& config) {
  const std::string name = config.FindString("full_position").value_or("rerope");
  if (name == "nope") return PositionKind::kNone;
  if (name == "alibi") return PositionKind::kAlibi;
  if (name == "rope") return PositionKind::kRope;
  if (name == "rerope") return PositionKind::kRerope;
  if (name == "leaky_rerope") return PositionKind::kLeakyRerope;
  config.Unsupported("full_position", "must be rope, rerope, leaky_rerope, alibi or nope, found " +
                                          config.Found("full_position"));
}

// The values that the config states, before the options change them.
struct Stated {
  TransformerPlan plan;
  std::vector<int64_t> full_layers;
  std::optional<int64_t> window;  // keys that a window layer sees
  bool own = false;               // true: a config of model_type hwfa2; false: of a family
  // If `own`: how every full-attention layer encodes positions.
  PositionKind full_position = PositionKind::kRope;
  std::optional<int64_t> rerope_window;
  std::optional<double> leaky_factor;

  // How layer i encodes positions if it is full attention.
  PositionKind PositionOf(size_t i) const {
    return own ? full_position : plan.spec.layers[i].position;
  }
};

// Refuses a key of ReRoPE that full_position does not read.
void RefuseIdleKey(const Config& config, const char* key, const char* positions) {
  config.Invalid(key, std::string("acts on nothing: full_position must be ") + positions +
                          ", found " + config.Found("full_position"));
}

Stated ReadOwn(const Config& config, const LoadOptions& options) {
  Stated stated;
  stated.own = true;
  stated.plan = ReadTransformer(config, options, "hwfa2", {.gau = true});
  ModelSpec& spec = stated.plan.spec;
  ReadAttentionBias(config, &spec);
  RequireFalse(config, "mlp_bias");
  const bool qk_norm = config.FindBool("use_qk_norm").value_or(!spec.layers.front().gau);
  if (qk_norm) SetQkNorm(&spec);
  stated.full_layers = FullLayersOfConfig(config, static_cast<int64_t>(spec.layers.size()));
  stated.window = config.FindInteger("sliding_window", 1, kMaxWindow);
  stated.full_position = ReadFullPosition(config);
  stated.rerope_window = config.FindInteger("rerope_window", 1, kMaxWindow);
  stated.leaky_factor = config.FindNumber("leaky_rerope_factor", 1.0, 1e9);
  const bool leaky = stated.full_position == PositionKind::kLeakyRerope;
  if (stated.rerope_window && !leaky && stated.full_position != PositionKind::kRerope) {
    RefuseIdleKey(config, "rerope_window", "rerope or leaky_rerope");
  }
  if (stated.leaky_factor && !leaky) RefuseIdleKey(config, "leaky_rerope_factor", "leaky_rerope");
  return stated;
}

Stated ReadStated(const Config& config, const LoadOptions& options) {
  if (config.FindString("model_type") == "hwfa2") return ReadOwn(config, options);
  const Family* family = FindFamily(config);
  if (family == nullptr) {
    const auto [key, problem] = WhyNoFamily(config, "hwfa2", "hwfa2");
    config.Unsupported(key, problem);
  }
  Stated stated;
  stated.plan = ReadFamily(config, options, *family);
  const std::vector<MixerSpec>& layers = stated.plan.spec.layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind == MixerKind::kFull) {
      stated.full_layers.push_back(static_cast<int64_t>(i));
    } else {
      stated.window = layers[i].window;
    }
  }
  return stated;
}

// Indices of the full-attention layers, from the option or else from the config.
std::vector<int64_t> FullLayers(const LoadOptions& options, const Stated& stated) {
  if (!stated.own && !stated.window && options.window() && !options.full_layers()) {
    InvalidOption("window needs full_layers, the layers that stay full attention ([]: none)");
  }
  if (!options.full_layers()) return stated.full_layers;
  const auto num_layers = static_cast<int64_t>(stated.plan.spec.layers.size());
  const std::vector<int64_t>& full = *options.full_layers();
  if (!full.empty() && full.back() >= num_layers) {
    InvalidOption("full_layers must be below num_hidden_layers = " + std::to_string(num_layers) +
                  ", found " + std::to_string(full.back()));
  }
  return full;
}

// Refuses an option that rotates keys if the layers were trained without RoPE.
void RequireRope(const char* option, PositionKind kind) {
  if (kind != PositionKind::kNone && kind != PositionKind::kAlibi) return;
  InvalidOption(std::string(option) + " needs layers trained with RoPE, and full_position is " +
                (kind == PositionKind::kNone ? "nope" : "alibi"));
}

// How a layer that encodes positions as `kind` does so after the options have changed it.
PositionKind OverriddenPosition(PositionKind kind, const LoadOptions& options) {
  const bool leaky = options.leaky_rerope_factor().has_value();
  if (!leaky && !options.rerope_window()) return kind;
  RequireRope(leaky ? "leaky_rerope_factor" : "rerope_window", kind);
  if (leaky) return PositionKind::kLeakyRerope;
  return kind == PositionKind::kRope ? PositionKind::kRerope : kind;
}

// How the full layers encode positions, for options that rotate keys. If some of these layers
// rotate keys and others do not, the answer is that of the layers that rotate them.
PositionKind FullPosition(const Stated& stated, const std::vector<int64_t>& full_layers) {
  if (full_layers.empty()) return stated.PositionOf(0);
  PositionKind position = PositionKind::kNone;
  for (const int64_t i : full_layers) {
    position = stated.PositionOf(static_cast<size_t>(i));
    if (position != PositionKind::kNone && position != PositionKind::kAlibi) break;
  }
  return position;
}

// Sets how the full layers with RoPE encode positions. Returns whether it read the training length.
bool SetFullPositions(const Config& config, const LoadOptions& options, const Stated& stated,
                      const std::vector<int64_t>& full_layers, ModelSpec* spec) {
  const PositionKind before = FullPosition(stated, full_layers);
  if (!stated.own && options.window()) RequireRope("window", before);
  const PositionKind position = OverriddenPosition(before, options);
  if (position != PositionKind::kRerope && position != PositionKind::kLeakyRerope) return false;

  const bool by_default = !options.rerope_window() && !stated.rerope_window;
  const int64_t window =
      by_default
          ? RequiredTrainingLength(config, *spec, "the default rerope_window, half of it,") / 2
      : options.rerope_window() ? *options.rerope_window()
                                : *stated.rerope_window;
  const std::optional<double> factor =
      options.leaky_rerope_factor() ? options.leaky_rerope_factor() : stated.leaky_factor;
  if (position == PositionKind::kLeakyRerope && !factor) {
    config.Invalid("leaky_rerope_factor", "is missing, expected a number from 1");
  }
  for (const int64_t i : full_layers) {
    MixerSpec& full = spec->layers[static_cast<size_t>(i)];
    if (!full.rotates()) continue;
    full.position = position;
    full.rerope_window = static_cast<int32_t>(std::min(window, kMaxWindow));
    if (position == PositionKind::kLeakyRerope) full.leaky_factor = *factor;
  }
  return by_default && !full_layers.empty();
}

// Refuses options for a kind of layer that the spec does not have.
void RefuseOptionsOfAbsentLayers(const LoadOptions& options, const ModelSpec& spec) {
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

int Hwfa2Fit(const Config& whole, std::string* why) {
  const Config config = TextConfig(whole);
  if (config.FindString("model_type") == "hwfa2") return kFitOwn;
  if (const Family* family = FindFamily(config)) {
    return HasWindows(config, *family) ? kFitOwn : kFitDense;
  }
  const auto [key, problem] = WhyNoFamily(config, "hwfa2", "hwfa2");
  *why = config.file() + ": " + std::string(key) + " " + problem;
  return 0;
}

ModelSpec Hwfa2Plan(const Config& whole, const LoadOptions& options) {
  const Config config = TextConfig(whole);
  const Stated stated = ReadStated(config, options);
  const std::vector<int64_t> full_layers = FullLayers(options, stated);
  const std::optional<int64_t> window = options.window() ? options.window() : stated.window;
  TransformerPlan plan = stated.plan;
  ModelSpec& spec = plan.spec;
  if (!window && full_layers.size() < spec.layers.size()) {
    if (!stated.own) InvalidOption("full_layers needs window, the keys that the other layers see");
    config.Invalid("sliding_window", "is missing, expected the keys that a window layer sees");
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    MixerSpec& mixer = spec.layers[i];
    const bool was_window = mixer.kind == MixerKind::kWindow;
    if (std::binary_search(full_layers.begin(), full_layers.end(), static_cast<int64_t>(i))) {
      if (was_window) plan.SetFull(i);
      mixer.position = stated.PositionOf(i);
    } else {
      plan.SetWindow(i, was_window && !options.window() ? mixer.window : *window);
    }
  }
  const bool default_rerope = SetFullPositions(config, options, stated, full_layers, &spec);
  RefuseOptionsOfAbsentLayers(options, spec);
  ApplyLogN(config, options, &spec);
  RefuseIdleOptions(options, spec, default_rerope);
  config.RefuseUnknown("the backend hwfa2");
  return spec;
}

}  // namespace longstream
