// The common part of specs of Llama's shape.
#include "backends/architectures/transformer/transformer_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "backends/architectures/transformer/gau_config.h"
#include "backends/checkpoint/quantised/quantisation.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

// Reads a size of at least 1. If both keys are absent, returns `silent`, or throws if `silent` is
// 0.
int64_t ReadSize(const Config& config, const SizeKeys::Either& keys, int64_t max,
                 int64_t silent = 0) {
  const auto& [key, other] = keys;
  const std::optional<int64_t> first = config.FindInteger(key, 1, max);
  std::optional<int64_t> second;
  if (!other.empty()) second = config.FindInteger(other, 1, max);
  if (first && second && *first != *second) {
    config.Invalid(other, "= " + config.Found(other) + " disagrees with " + std::string(key) +
                              " = " + config.Found(key));
  }
  if (first || second) return first ? *first : *second;
  return silent > 0 ? silent : config.Integer(key, 1, max);  // Integer throws
}

MixerSpec AttentionMixer(const Config& config, const TransformerDefaults& defaults, int64_t width) {
  MixerSpec mixer;
  const int64_t heads = ReadSize(config, defaults.keys.num_heads, kMaxWidth, defaults.num_heads);
  const int64_t kv_heads =
      config.FindInteger("num_key_value_heads", 1, heads)
          .value_or(defaults.num_kv_heads == 0 ? heads : defaults.num_kv_heads);
  if (heads % kv_heads != 0) {
    config.Invalid("num_key_value_heads",
                   "must divide num_attention_heads = " + std::to_string(heads) + ", found " +
                       std::to_string(kv_heads));
  }
  std::optional<int64_t> head_dim = config.FindInteger("head_dim", 2, kMaxHeadWidth);
  if (!head_dim && defaults.head_dim > 0) head_dim = defaults.head_dim;
  if (!head_dim && width % heads != 0) {
    config.Invalid(defaults.keys.num_heads[0],
                   "must divide " + std::string(defaults.keys.width[0]) + " = " +
                       std::to_string(width) + " where head_dim is absent, found " +
                       std::to_string(heads));
  }
  const int64_t d = head_dim.value_or(width / heads);
  if (d % 2 != 0) {
    config.Invalid("head_dim", "must be even for RoPE, found " + std::to_string(d));
  }
  if (d > kMaxHeadWidth) {
    config.Invalid(defaults.keys.num_heads[0],
                   "must divide " + std::string(defaults.keys.width[0]) + " = " +
                       std::to_string(width) + " into heads of at most " +
                       std::to_string(kMaxHeadWidth) + ", found " + std::to_string(heads));
  }
  RequireHeadsFit(config, defaults.keys.num_heads[0], heads, d);
  mixer.num_heads = static_cast<int32_t>(heads);
  mixer.num_kv_heads = static_cast<int32_t>(kv_heads);
  mixer.head_dim = static_cast<int32_t>(d);
  mixer.value_dim = mixer.head_dim;
  mixer.score_scale = 1.0 / std::sqrt(static_cast<double>(d));
  return mixer;
}

// The context limit: max_position_embeddings, or a longer one that some configs state as well.
int64_t ContextLimit(const Config& config, int64_t max_position_embeddings) {
  int64_t limit = max_position_embeddings;
  for (const char* key : {"max_sequence_length", "model_max_length"}) {
    limit = std::max(limit, config.FindInteger(key, 1, kMaxPositions).value_or(limit));
  }
  return limit;
}

// Whether the layers are gated attention units.
bool IsGau(const Config& config, const TransformerDefaults& defaults) {
  if (!defaults.gau) {
    RequireString(config, "block_type", "transformer");
    return false;
  }
  const std::string name = config.FindString("block_type").value_or("transformer");
  if (name == "transformer") return false;
  if (name == "gau") return true;
  config.Unsupported("block_type",
                     "must be transformer or gau, found " + config.Found("block_type"));
}

}  // namespace

void TransformerPlan::SetWindow(size_t layer, int64_t window) {
  MixerSpec& mixer = spec.layers[layer];
  mixer.kind = MixerKind::kWindow;
  mixer.window = static_cast<int32_t>(std::min(window, kMaxWindow));
  mixer.rope = window_rope;
}

void TransformerPlan::SetFull(size_t layer) {
  MixerSpec& mixer = spec.layers[layer];
  mixer.kind = MixerKind::kFull;
  mixer.window = 0;
  mixer.rope = full_rope;
}

TransformerPlan ReadTransformer(const Config& config, const LoadOptions& options,
                                std::string_view architecture,
                                const TransformerDefaults& defaults) {
  RefuseOtherQuantisation(config);

  TransformerPlan plan;
  ModelSpec& spec = plan.spec;
  spec.architecture = architecture;
  const bool gau = IsGau(config, defaults);
  if (gau) spec.feed_forward = FeedForwardKind::kNone;
  spec.vocabulary = ReadSize(config, {"vocab_size"}, INT32_MAX, defaults.vocabulary);
  const SizeKeys& keys = defaults.keys;
  spec.width = ReadSize(config, keys.width, kMaxWidth);
  if (!gau) {
    spec.mlp_width = ReadSize(config, keys.mlp_width, kMaxWidth, defaults.mlp_factor * spec.width);
  }
  spec.norm_eps =
      static_cast<float>(config.FindNumber("rms_norm_eps", 0.0, 1.0).value_or(defaults.norm_eps));
  const bool legacy_gelu = defaults.gelu_is_tanh && config.FindString("hidden_act") == "gelu";
  spec.activation = legacy_gelu
                        ? Activation::kGeluTanh
                        : FindActivation(config, "hidden_act").value_or(defaults.activation);
  spec.tied_head = config.FindBool("tie_word_embeddings").value_or(defaults.tied_head);
  const int64_t num_layers = ReadSize(config, keys.num_layers, kMaxLayers);

  const int64_t positions =
      ReadSize(config, keys.context_limit, kMaxPositions, defaults.context_limit);
  const int64_t limit = ContextLimit(config, positions);
  spec.context_limit = options.context_limit().value_or(limit);
  const std::optional<int64_t> stated = config.FindInteger("training_length", 2, kMaxPositions);
  spec.training_length = options.training_length().value_or(
      stated.value_or(defaults.trained_to_limit ? positions : 0));

  MixerSpec mixer =
      gau ? ReadGauMixer(config, spec.width) : AttentionMixer(config, defaults, spec.width);
  if (gau) spec.names = GauNames();
  const RopeOfLayers rope = ReadRope(config, options,
                                     {.head_dim = mixer.head_dim,
                                      .max_position_embeddings = positions,
                                      .context_limit = spec.context_limit,
                                      .defaults = defaults.rope});
  mixer.rope = plan.full_rope = rope.full;
  plan.window_rope = rope.window;
  if (!options.context_limit()) {
    spec.context_limit = std::max(limit, std::min(rope.extended_length, kMaxPositions));
  }
  spec.layers.assign(static_cast<size_t>(num_layers), mixer);
  return plan;
}

void RequireHeadsFit(const Config& config, std::string_view key, int64_t heads, int64_t head_dim) {
  const int64_t most = kMaxWidth / head_dim;
  if (heads <= most) return;
  config.Invalid(key, "must be at most " + std::to_string(most) + " where heads are " +
                          std::to_string(head_dim) + " wide, found " + std::to_string(heads));
}

void ReadAttentionBias(const Config& config, ModelSpec* spec) {
  const bool bias = config.FindBool("attention_bias").value_or(false);
  for (MixerSpec& mixer : spec->layers) mixer.qkv_bias = mixer.output_bias = bias;
}

void ReadMlpBias(const Config& config, ModelSpec* spec) {
  spec->mlp_bias = config.FindBool("mlp_bias").value_or(false);
}

void SetQkNorm(ModelSpec* spec) {
  for (MixerSpec& mixer : spec->layers) mixer.qk_norm = QkNorm::kHead;
}

void RefuseOtherQuantisation(const Config& config) { (void)ReadQuantisation(config); }

void RequireString(const Config& config, std::string_view key, std::string_view usual) {
  const std::optional<std::string> value = config.FindString(key);
  if (value && *value != usual) {
    config.Unsupported(key, "must be \"" + std::string(usual) + "\", found " + config.Found(key));
  }
}

void RequireFalse(const Config& config, std::string_view key) {
  if (config.FindBool(key).value_or(false)) config.Unsupported(key, "must be false, found true");
}

void RequireTrue(const Config& config, std::string_view key) {
  if (!config.FindBool(key).value_or(true)) config.Unsupported(key, "must be true, found false");
}

std::optional<Activation> FindActivation(const Config& config, std::string_view key) {
  const std::optional<std::string> name = config.FindString(key);
  if (!name) return std::nullopt;
  if (*name == "silu" || *name == "swish") return Activation::kSilu;
  if (*name == "gelu_pytorch_tanh" || *name == "gelu_new") return Activation::kGeluTanh;
  if (*name == "gelu") return Activation::kGelu;
  config.Unsupported(key, "must be silu, gelu or gelu_pytorch_tanh, found " + config.Found(key));
}

std::optional<std::vector<bool>> FindWindowLayers(const Config& config, size_t num_layers) {
  const std::optional<std::vector<std::string>> types = config.FindStrings("layer_types");
  if (!types) return std::nullopt;
  if (types->size() != num_layers) {
    config.Invalid("layer_types", "must have num_hidden_layers = " + std::to_string(num_layers) +
                                      " items, found " + std::to_string(types->size()));
  }
  std::vector<bool> windows;
  for (size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    if (type != "full_attention" && type != "sliding_attention") {
      config.Unsupported("layer_types",
                         "must hold full_attention and sliding_attention only, found \"" + type +
                             "\" in layer " + std::to_string(i));
    }
    windows.push_back(type == "sliding_attention");
  }
  return windows;
}

int64_t RequiredTrainingLength(const Config& config, const ModelSpec& spec,
                               std::string_view needed_by) {
  if (spec.training_length == 0) {
    config.Invalid("training_length", "is missing, expected the training length that " +
                                          std::string(needed_by) + " needs");
  }
  // A length of 1 is refused, because ln 1 = 0 would be a divisor and half of 1 is no width. It can
  // only come from max_position_embeddings: a training_length that a config states is at least 2.
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

void RefuseIdleOptions(const LoadOptions& options, const ModelSpec& spec,
                       bool training_length_is_read) {
  if (options.rope_scaling() &&
      std::none_of(spec.layers.begin(), spec.layers.end(),
                   [](const MixerSpec& mixer) { return mixer.rotates(); })) {
    RefuseIdleOption("rope_scaling", "no layer has RoPE");
  }
  const bool scales =
      std::any_of(spec.layers.begin(), spec.layers.end(), [](const MixerSpec& mixer) {
        return mixer.logit_scale == LogitScaleKind::kLogNAlways ||
               mixer.logit_scale == LogitScaleKind::kLogNExtrapolate;
      });
  if (options.training_length() && !scales && !training_length_is_read) {
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
