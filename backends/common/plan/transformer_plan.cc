// The part of a layer plan that all configs of Llama's shape share.
#include "backends/common/plan/transformer_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "backends/common/error.h"
#include "backends/common/plan/rope_config.h"

namespace longstream {
namespace {

constexpr Family kFamilies[] = {
    {.model_type = "llama", .trained_to_limit = true},
    {.model_type = "mistral", .window = WindowRule::kSlidingWindow, .trained_to_limit = true},
    {.model_type = "qwen2",
     .bias = BiasRule::kQkv,
     .window = WindowRule::kUseSlidingWindow,
     .trained_to_limit = true},
    {.model_type = "qwen3",
     .qk_norm = true,
     .window = WindowRule::kUseSlidingWindow,
     .default_head_dim = 128,
     .trained_to_limit = true},
};

constexpr const char* kWindowHint =
    ", which asks for window attention: the config of such a model is of model_type hwfa2";

// Refuses a key that asks for what the block does not compute, unless it has its usual value.
void RequireString(const Config& config, std::string_view key, std::string_view usual) {
  const std::optional<std::string> value = config.FindString(key);
  if (value && *value != usual) {
    config.Unsupported(key, "must be \"" + std::string(usual) + "\", found " + config.Found(key));
  }
}

void RequireFalse(const Config& config, std::string_view key) {
  if (config.FindBool(key).value_or(false)) config.Unsupported(key, "must be false, found true");
}

void RefuseWindows(const Config& config, WindowRule rule, int64_t num_layers) {
  if (rule == WindowRule::kUseSlidingWindow) {
    if (config.FindBool("use_sliding_window").value_or(false)) {
      config.Unsupported("use_sliding_window", std::string("= true") + kWindowHint);
    }
    // Without use_sliding_window these say nothing.
    config.FindInteger("sliding_window", 0, kMaxPositions);
    config.FindInteger("max_window_layers", 0, kMaxLayers);
  } else if (rule == WindowRule::kSlidingWindow && !config.IsNull("sliding_window")) {
    // transformers takes an absent key for a window of 4096.
    config.Unsupported("sliding_window",
                       "must be null, found " + config.Found("sliding_window") + kWindowHint);
  }
  if (rule == WindowRule::kNone) return;
  const std::optional<std::vector<std::string>> types = config.FindStrings("layer_types");
  if (!types) return;
  const bool all_full = std::all_of(types->begin(), types->end(), [](const std::string& type) {
    return type == "full_attention";
  });
  if (!all_full || static_cast<int64_t>(types->size()) != num_layers) {
    config.Unsupported("layer_types", "must be " + std::to_string(num_layers) +
                                          " times \"full_attention\", found " +
                                          config.Found("layer_types"));
  }
}

MixerSpec AttentionMixer(const Config& config, const Family& family, int64_t width) {
  MixerSpec mixer;
  const int64_t heads = config.Integer("num_attention_heads", 1, kMaxWidth);
  const int64_t kv_heads = config.FindInteger("num_key_value_heads", 1, heads).value_or(heads);
  if (heads % kv_heads != 0) {
    config.Invalid("num_key_value_heads",
                   "must divide num_attention_heads = " + std::to_string(heads) + ", found " +
                       std::to_string(kv_heads));
  }
  std::optional<int64_t> head_dim = config.FindInteger("head_dim", 2, kMaxWidth);
  if (!head_dim && family.default_head_dim > 0) head_dim = family.default_head_dim;
  if (!head_dim && width % heads != 0) {
    config.Invalid("num_attention_heads", "must divide hidden_size = " + std::to_string(width) +
                                              " where head_dim is absent, found " +
                                              std::to_string(heads));
  }
  const int64_t d = head_dim.value_or(width / heads);
  if (d % 2 != 0) {
    config.Invalid("head_dim", "must be even for RoPE, found " + std::to_string(d));
  }
  mixer.num_heads = static_cast<int32_t>(heads);
  mixer.num_kv_heads = static_cast<int32_t>(kv_heads);
  mixer.head_dim = static_cast<int32_t>(d);
  mixer.value_dim = mixer.head_dim;
  mixer.qk_norm = family.qk_norm;
  const bool attention_bias =
      family.bias == BiasRule::kKey && config.FindBool("attention_bias").value_or(false);
  mixer.qkv_bias = attention_bias || family.bias == BiasRule::kQkv;
  mixer.output_bias = attention_bias;
  mixer.rope_theta = ReadRopeTheta(config);
  mixer.score_scale = 1.0 / std::sqrt(static_cast<double>(d));
  return mixer;
}

}  // namespace

const Family* FindFamily(const Config& config) {
  const std::string model_type = config.FindString("model_type").value_or("");
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string FamilyNames() {
  std::string names;
  for (const Family& family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return names;
}

ModelSpec TransformerSpec(const Config& config, const LoadOptions& options, const Family& family) {
  RequireString(config, "block_type", "transformer");
  RequireString(config, "hidden_act", "silu");
  RequireFalse(config, "mlp_bias");

  ModelSpec spec;
  spec.architecture = family.model_type;
  spec.vocabulary = config.Integer("vocab_size", 1, INT32_MAX);
  spec.width = config.Integer("hidden_size", 1, kMaxWidth);
  spec.mlp_width = config.Integer("intermediate_size", 1, kMaxWidth);
  spec.norm_eps = static_cast<float>(config.FindNumber("rms_norm_eps", 0.0, 1.0).value_or(1e-6));
  spec.tied_head = config.FindBool("tie_word_embeddings").value_or(false);
  const int64_t num_layers = config.Integer("num_hidden_layers", 1, kMaxLayers);
  RefuseWindows(config, family.window, num_layers);

  const int64_t limit = config.Integer("max_position_embeddings", 1, kMaxPositions);
  spec.context_limit = options.context_limit().value_or(limit);
  const std::optional<int64_t> stated = config.FindInteger("training_length", 2, kMaxPositions);
  spec.training_length =
      options.training_length().value_or(stated.value_or(family.trained_to_limit ? limit : 0));

  spec.layers.assign(static_cast<size_t>(num_layers), AttentionMixer(config, family, spec.width));
  return spec;
}

PositionKind ReadDensePosition(const Config& config) {
  const std::string name = config.FindString("full_position").value_or("rope");
  if (name == "rope") return PositionKind::kRope;
  if (name == "alibi") return PositionKind::kAlibi;
  if (name == "nope") return PositionKind::kNone;
  config.Unsupported("full_position",
                     "must be rope, alibi or nope, found " + config.Found("full_position"));
}

int64_t RequiredTrainingLength(const Config& config, const ModelSpec& spec,
                               std::string_view needed_by) {
  if (spec.training_length == 0) {
    config.Invalid("training_length", "is missing, expected the training length that " +
                                          std::string(needed_by) + " needs");
  }
  // ln 1 = 0 divides, and half of 1 is no width. Stated as such it is at least 2.
  if (spec.training_length < 2) {
    config.Invalid("max_position_embeddings", "must be at least 2 as the training length that " +
                                                  std::string(needed_by) + " needs, found " +
                                                  std::to_string(spec.training_length));
  }
  return spec.training_length;
}

void RefuseIdleOption(std::string_view name, std::string_view why) {
  throw BackendError(LS_INVALID_ARGUMENT,
                     "options: " + std::string(name) + " acts on nothing: " + std::string(why));
}

void RefuseIdleTrainingLength(const LoadOptions& options, const ModelSpec& spec, bool is_read) {
  const bool scales =
      std::any_of(spec.layers.begin(), spec.layers.end(), [](const MixerSpec& mixer) {
        return mixer.logit_scale == LogitScaleKind::kLogNAlways ||
               mixer.logit_scale == LogitScaleKind::kLogNExtrapolate;
      });
  if (options.training_length() && !scales && !is_read) {
    RefuseIdleOption("training_length",
                     "there is neither log n scaling nor a default rerope_window");
  }
}

void ApplyLogN(const Config& config, const LoadOptions& options, ModelSpec* spec) {
  std::optional<std::string> mode = config.FindString("logn_scaling");
  if (mode && *mode != "always" && *mode != "extrapolate") {
    config.Unsupported("logn_scaling", "must be null, \"always\" or \"extrapolate\", found " +
                                           config.Found("logn_scaling"));
  }
  if (options.logn()) {
    mode = options.logn();
    const bool acts =
        std::any_of(spec->layers.begin(), spec->layers.end(),
                    [](const MixerSpec& mixer) { return mixer.kind == MixerKind::kFull; });
    if (!acts) RefuseIdleOption("logn", "no layer is full attention");
  }
  if (!mode) return;
  const auto base = static_cast<double>(RequiredTrainingLength(config, *spec, "log n scaling"));
  for (MixerSpec& mixer : spec->layers) {
    if (mixer.kind != MixerKind::kFull) continue;
    mixer.logit_scale =
        *mode == "always" ? LogitScaleKind::kLogNAlways : LogitScaleKind::kLogNExtrapolate;
    mixer.logit_scale_base = base;
  }
}

}  // namespace longstream
