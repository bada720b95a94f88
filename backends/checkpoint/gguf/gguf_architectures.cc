// The architectures of GGUF files that are served: what llama.cpp's conversion did to the keys of
// config.json and to the tensors of each (conversion/*.py there), and constants that llama.cpp has
// in its code instead (src/models/*.cpp).
#include "backends/checkpoint/gguf/gguf_architectures.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "backends/errors/error.h"

namespace longstream {
namespace {

constexpr uint64_t kMostLayers = 1 << 12;
constexpr uint64_t kMostPairs = 1 << 12;

void AddBiases(const ConfigOfModel& model) {
  model.config.AddBool("attention_bias", model.HasTensor("blk.0.attn_q.bias"));
  model.config.AddBool("mlp_bias", model.HasTensor("blk.0.ffn_gate.bias"));
}

void AddAttentionBias(const ConfigOfModel& model) {
  model.config.AddBool("attention_bias", model.HasTensor("blk.0.attn_q.bias"));
}

// Whether each layer has a window: attention.sliding_window_pattern lists it, or is a period p that
// leaves every p-th layer without one. `period` counts if the value is absent.
void AddWindows(const ConfigOfModel& model, int64_t window, int64_t period) {
  const char* key = "attention.sliding_window_pattern";
  const GgufValue* const value = model.metadata.Find(key);
  std::vector<bool> windows;
  if (value != nullptr && value->is_array) {
    const auto listed = value->Bools(kMostLayers);
    if (!listed || listed->size() != static_cast<size_t>(model.num_layers)) {
      model.metadata.Invalid(key, "must list true or false for each of " +
                                      std::to_string(model.num_layers) + " layers, found " +
                                      value->Found());
    }
    windows = *listed;
  } else {
    if (value != nullptr) period = model.metadata.Integer(key);
    for (int64_t i = 0; i < std::min<int64_t>(model.num_layers, kMostLayers); ++i) {
      windows.push_back(period == 0 || (i + 1) % period != 0);
    }
  }
  std::vector<std::string_view> types;
  types.reserve(windows.size());
  for (const bool in_window : windows) {
    types.emplace_back(in_window ? "sliding_attention" : "full_attention");
  }
  model.config.Add("sliding_window", window);
  model.config.AddStrings("layer_types", types);
}

void Llama(const ConfigOfModel& model) { AddBiases(model); }

// The number must be there: the class of transformers and llama.cpp differ in the value of an
// absent attention.scale.
void Granite(const ConfigOfModel& model) {
  AddBiases(model);
  constexpr std::pair<const char*, const char*> kFactors[] = {
      {"attention.scale", "attention_multiplier"},
      {"embedding_scale", "embedding_multiplier"},
      {"residual_scale", "residual_multiplier"},
      {"logit_scale", "logits_scaling"}};
  for (const auto& [from, to] : kFactors) model.config.AddText(to, model.metadata.Number(from));
  // Granite without RoPE has false here.
  model.metadata.RequireBool("rope.scaling.finetuned", true);
}

void SmolLm3(const ConfigOfModel& model) {
  AddBiases(model);
  model.config.Add("no_rope_layer_interval", 4);
}

void Nothing(const ConfigOfModel&) {}

// llama.cpp knows by the number of layers that the largest model divides scores by the root of
// another number than the others.
void AddScoreScale(const ConfigOfModel& model, int64_t layers_of_27b) {
  const bool is_27b = model.num_layers == layers_of_27b;
  model.config.Add("query_pre_attn_scalar",
                   is_27b ? model.width / model.num_heads : model.head_dim);
}

void AddSoftcap(const ConfigOfModel& model, const char* from, const char* to) {
  if (const auto cap = model.metadata.FindNumber(from)) model.config.AddText(to, *cap);
}

void Gemma2(const ConfigOfModel& model) {
  AddScoreScale(model, 46);
  AddSoftcap(model, "attn_logit_softcapping", "attn_logit_softcapping");
  AddSoftcap(model, "final_logit_softcapping", "final_logit_softcapping");
  AddWindows(model, model.metadata.FindInteger("attention.sliding_window").value_or(4096), 2);
}

void Gemma3(const ConfigOfModel& model) {
  AddScoreScale(model, 62);
  AddSoftcap(model, "final_logit_softcapping", "final_logit_softcapping");
  model.config.AddText("rope_local_base_freq",
                       model.metadata.FindNumber("rope.freq_base_swa").value_or("10000.0"));
  const int64_t window = model.metadata.FindInteger("attention.sliding_window").value_or(0);
  if (window > 0) {
    AddWindows(model, window, 6);
  } else {
    model.config.Add("sliding_window_pattern", 1);
  }
}

void AddPhi3Factors(const ConfigOfModel& model) {
  const GgufModel& files = model.metadata.model();
  const GgufTensor* const longer = files.FindTensor("rope_factors_long.weight");
  const GgufTensor* const shorter = files.FindTensor("rope_factors_short.weight");
  if (longer == nullptr && shorter == nullptr) return;
  if (longer == nullptr || shorter == nullptr) {
    const std::string present = longer != nullptr ? "long" : "short";
    const std::string missing = longer != nullptr ? "short" : "long";
    throw BackendError(LS_INVALID_ARGUMENT, files.path() + ": tensor \"rope_factors_" + missing +
                                                ".weight\" is missing, though rope_factors_" +
                                                present + ".weight is there");
  }
  model.rope.AddString("rope_type", "longrope");
  model.rope.AddNumbers("long_factor", files.ReadVector(*longer, kMostPairs));
  model.rope.AddNumbers("short_factor", files.ReadVector(*shorter, kMostPairs));
  model.rope.AddText("attention_factor",
                     model.metadata.FindNumber("rope.scaling.attn_factor").value_or("1.0"));
  model.config.Add("original_max_position_embeddings",
                   model.metadata.Integer("rope.scaling.original_context_length"));
}

// A window of 0 means that there is none.
void Phi3(const ConfigOfModel& model) {
  AddPhi3Factors(model);
  const int64_t window = model.metadata.FindInteger("attention.sliding_window").value_or(0);
  if (window > 0) model.config.Add("sliding_window", window);
}

// OLMo 3 has windows, and the scaling of its RoPE is that of the other layers alone.
void Olmo2(const ConfigOfModel& model) {
  AddAttentionBias(model);
  const int64_t window = model.metadata.FindInteger("attention.sliding_window").value_or(0);
  if (window == 0) return;
  model.model_type = "olmo3";
  AddWindows(model, window, 4);
  const std::string theta = model.metadata.FindNumber("rope.freq_base").value_or("10000.0");
  ConfigWriter full = model.rope;
  if (full.empty()) full.AddString("rope_type", "default");
  full.AddText("rope_theta", theta);
  ConfigWriter in_windows;
  in_windows.AddString("rope_type", "default");
  in_windows.AddText("rope_theta", model.metadata.FindNumber("rope.freq_base_swa").value_or(theta));
  ConfigWriter both;
  both.AddObject("full_attention", full);
  both.AddObject("sliding_attention", in_windows);
  model.config.AddObject("rope_parameters", both);
  model.rope = ConfigWriter();
}

void Cohere(const ConfigOfModel& model) {
  AddAttentionBias(model);
  model.config.AddText("logit_scale", model.metadata.Number("logit_scale"));
  model.config.AddBool("use_qk_norm", model.HasTensor("blk.0.attn_q_norm.weight"));
}

void Cohere2(const ConfigOfModel& model) {
  AddAttentionBias(model);
  model.config.AddText("logit_scale", model.metadata.Number("logit_scale"));
  AddWindows(model, model.metadata.Integer("attention.sliding_window"), 4);
}

void Exaone4(const ConfigOfModel& model) {
  const int64_t window = model.metadata.FindInteger("attention.sliding_window").value_or(0);
  model.metadata.RequireNumber("nextn_predict_layers", 0);
  if (window > 0) {
    AddWindows(model, window, 4);
  } else {
    model.config.AddText("sliding_window", "null");
  }
}

// Norms on both sides of a branch.
constexpr GgufName kSandwich[] = {{"post_attention_norm", "post_attention_layernorm"},
                                  {"ffn_norm", "pre_feedforward_layernorm"},
                                  {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr GgufName kBehind[] = {{"post_attention_norm", "post_attention_layernorm"},
                                {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr GgufName kPhi3[] = {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}};

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama", .model_type = "llama", .config = Llama, .interleaved = true},
    {.name = "qwen2", .model_type = "qwen2", .config = Nothing},
    {.name = "qwen3", .model_type = "qwen3", .config = AddAttentionBias},
    {.name = "gemma", .model_type = "gemma", .config = Nothing, .norms_plus_one = true},
    {.name = "gemma2",
     .model_type = "gemma2",
     .config = Gemma2,
     .names = kSandwich,
     .norms_plus_one = true},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .config = Gemma3,
     .names = kSandwich,
     .norms_plus_one = true},
    {.name = "phi3",
     .model_type = "phi3",
     .config = Phi3,
     .names = kPhi3,
     .rotates_parts = true,
     .long_rope = true},
    {.name = "smollm3", .model_type = "smollm3", .config = SmolLm3, .interleaved = true},
    {.name = "olmo2", .model_type = "olmo2", .config = Olmo2, .names = kBehind},
    {.name = "granite", .model_type = "granite", .config = Granite, .interleaved = true},
    {.name = "exaone4", .model_type = "exaone4", .config = Exaone4, .names = kBehind},
    {.name = "command-r", .model_type = "cohere", .config = Cohere, .layer_norm = true},
    {.name = "cohere2", .model_type = "cohere2", .config = Cohere2, .layer_norm = true},
};

}  // namespace

const GgufArchitecture* FindGgufArchitecture(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [name](const GgufArchitecture& entry) { return entry.name == name; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

std::span<const GgufArchitecture> GgufArchitectures() { return kArchitectures; }

}  // namespace longstream
