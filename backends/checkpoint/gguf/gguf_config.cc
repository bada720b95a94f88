// Writes a config.json from the metadata of a GGUF model: the keys that all architectures have.
#include "backends/checkpoint/gguf/gguf_config.h"

#include <charconv>
#include <optional>
#include <utility>

#include "backends/checkpoint/gguf/gguf_architectures.h"
#include "backends/checkpoint/gguf/gguf_metadata.h"
#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

constexpr const char* kFrequencies = "rope_freqs.weight";
constexpr uint64_t kMostPairs = 1 << 12;

const GgufArchitecture& ArchitectureOf(const GgufMetadata& metadata) {
  const GgufArchitecture* const found = FindGgufArchitecture(metadata.architecture());
  if (found != nullptr) return *found;
  throw BackendError(LS_UNIMPLEMENTED,
                     metadata.model().path() + ": general.architecture must be one of " +
                         GgufArchitectureNames() + ", found " + Quoted(metadata.architecture()));
}

// Refuses forms of the block that no architecture of the table has.
void RefuseOtherForms(GgufMetadata* metadata) {
  const std::optional<int64_t> experts = metadata->FindInteger("expert_count");
  if (experts.value_or(0) > 0) {
    metadata->Unsupported("expert_count",
                          "= " + std::to_string(*experts) + ": mixtures of experts are not served");
  }
  metadata->RequireNumber("expert_used_count", 0);
  metadata->RequireBool("attention.causal", true);
  metadata->RequireBool("use_parallel_residual", false);
}

// A vector of one factor for each pair that rotates: pair i rotates by its frequency divided by
// factors[i]. LongRoPE with the same factors for every length computes this.
void AddFrequencies(const ConfigOfModel& model) {
  const GgufModel& files = model.metadata.model();
  const GgufTensor* const tensor = files.FindTensor(kFrequencies);
  if (tensor == nullptr) return;
  if (!model.rope.empty()) {
    model.metadata.Unsupported("rope.scaling.type",
                               "must be absent beside the tensor rope_freqs.weight");
  }
  const std::vector<float> factors = files.ReadVector(*tensor, kMostPairs);
  model.rope.AddString("rope_type", "longrope");
  model.rope.AddNumbers("short_factor", factors);
  model.rope.AddNumbers("long_factor", factors);
  model.rope.AddText("attention_factor", "1.0");
}

void AddYarn(const ConfigOfModel& model) {
  GgufMetadata& metadata = model.metadata;
  model.rope.AddText("factor", metadata.Number("rope.scaling.factor"));
  model.rope.Add("original_max_position_embeddings",
                 metadata.Integer("rope.scaling.original_context_length"));
  constexpr std::pair<const char*, const char*> kKeys[] = {
      {"rope.scaling.yarn_attn_factor", "attention_factor"},
      {"rope.scaling.yarn_beta_fast", "beta_fast"},
      {"rope.scaling.yarn_beta_slow", "beta_slow"}};
  for (const auto& [from, to] : kKeys) {
    if (const auto number = metadata.FindNumber(from)) model.rope.AddText(to, *number);
  }
  metadata.RequireNumber("rope.scaling.yarn_ext_factor", 1);
  metadata.RequireNumber("rope.scaling.attn_factor", 1);
  metadata.RequireNumber("rope.scaling.yarn_log_multiplier", 0);
}

// The scalings that every architecture may have. LongRoPE is Phi-3's and is left to it.
void AddScaling(const ConfigOfModel& model) {
  GgufMetadata& metadata = model.metadata;
  const std::optional<std::string> stated = metadata.FindString("rope.scaling.type");
  const bool has_factor = metadata.Has("rope.scaling.factor");
  // In llama.cpp, a factor without a type is linear, and a factor of 0 is none.
  const std::string type = stated.value_or(has_factor ? "linear" : "none");
  if (type == "linear") {
    if (!has_factor || metadata.Find("rope.scaling.factor")->Number() == 0.0) return;
    model.rope.AddString("rope_type", "linear");
    model.rope.AddText("factor", metadata.Number("rope.scaling.factor"));
  } else if (type == "yarn") {
    model.rope.AddString("rope_type", "yarn");
    AddYarn(model);
  } else if (type != "none" && type != "longrope") {
    metadata.Unsupported("rope.scaling.type",
                         "must be none, linear, yarn or longrope, found " + Quoted(type));
  }
}

// rope.dimension_count, which must be a whole head unless the architecture rotates parts.
void AddRotated(const GgufArchitecture& architecture, const ConfigOfModel& model) {
  const int64_t rotated =
      model.metadata.FindInteger("rope.dimension_count").value_or(model.head_dim);
  if (rotated == model.head_dim) return;
  if (!architecture.rotates_parts || rotated > model.head_dim || rotated < 2) {
    model.metadata.Unsupported("rope.dimension_count", "must be " + std::to_string(model.head_dim) +
                                                           ", the width of a head, found " +
                                                           std::to_string(rotated));
  }
  // A reader multiplies by the width and truncates. With + 0.5 the result is `rotated`.
  const double part = (static_cast<double>(rotated) + 0.5) / static_cast<double>(model.head_dim);
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), part);
  model.config.AddText("partial_rotary_factor", std::string(text, end));
}

int64_t HeadDim(GgufMetadata* metadata, int64_t width, int64_t num_heads) {
  const std::optional<int64_t> key = metadata->FindInteger("attention.key_length");
  if (num_heads == 0 || (!key && width % num_heads != 0)) {
    metadata->Invalid("attention.head_count",
                      "must divide embedding_length = " + std::to_string(width) + ", found " +
                          std::to_string(num_heads));
  }
  const int64_t head_dim = key.value_or(width / num_heads);
  const int64_t value = metadata->FindInteger("attention.value_length").value_or(head_dim);
  if (value != head_dim) {
    metadata->Unsupported("attention.value_length",
                          "must be attention.key_length = " + std::to_string(head_dim) +
                              ", found " + std::to_string(value));
  }
  return head_dim;
}

void AddSizes(const GgufArchitecture& architecture, const ConfigOfModel& model) {
  GgufMetadata& metadata = model.metadata;
  ConfigWriter& config = model.config;
  config.Add("hidden_size", model.width);
  config.Add("num_hidden_layers", model.num_layers);
  config.Add("num_attention_heads", model.num_heads);
  config.Add("num_key_value_heads",
             metadata.FindInteger("attention.head_count_kv").value_or(model.num_heads));
  config.Add("head_dim", model.head_dim);
  config.Add("intermediate_size", metadata.Integer("feed_forward_length"));
  config.Add("max_position_embeddings", metadata.Integer("context_length"));
  config.AddText("rope_theta", metadata.FindNumber("rope.freq_base").value_or("10000.0"));
  if (architecture.layer_norm) {
    config.AddText("layer_norm_eps", metadata.Number("attention.layer_norm_epsilon"));
  } else {
    config.AddText("rms_norm_eps", metadata.Number("attention.layer_norm_rms_epsilon"));
  }
  const GgufModel& files = metadata.model();
  const GgufTensor* const embedding = files.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    throw BackendError(LS_INVALID_ARGUMENT,
                       files.path() + ": expected a matrix token_embd.weight, found " +
                           (embedding == nullptr ? "no tensor of this name" : "another shape"));
  }
  config.Add("vocab_size", embedding->shape[0]);
  config.AddBool("tie_word_embeddings", !model.HasTensor("output.weight"));
}

}  // namespace

std::string GgufConfigText(const GgufModel& model) {
  GgufMetadata metadata(model);
  const GgufArchitecture& architecture = ArchitectureOf(metadata);
  RefuseOtherForms(&metadata);
  ConfigWriter config;
  ConfigWriter rope;
  const int64_t width = metadata.Integer("embedding_length");
  const int64_t num_heads = metadata.Integer("attention.head_count");
  std::string_view model_type = architecture.model_type;
  const ConfigOfModel parts = {.metadata = metadata,
                               .config = config,
                               .model_type = model_type,
                               .rope = rope,
                               .num_layers = metadata.Integer("block_count"),
                               .num_heads = num_heads,
                               .width = width,
                               .head_dim = HeadDim(&metadata, width, num_heads)};
  AddSizes(architecture, parts);
  AddRotated(architecture, parts);
  AddScaling(parts);
  AddFrequencies(parts);
  architecture.config(parts);
  if (metadata.FindString("rope.scaling.type") == "longrope" && rope.empty()) {
    metadata.Unsupported("rope.scaling.type",
                         "= \"longrope\" is served with the tensors rope_factors_long.weight and "
                         "rope_factors_short.weight of phi3 only");
  }
  config.AddString("model_type", model_type);
  if (!rope.empty()) config.AddObject("rope_scaling", rope);
  // vocab_size repeats the shape of token_embd. tensor_data_layout and rope.scaling.finetuned tell
  // of the model's origin. The other values belong to a scaling or a norm that the model lacks.
  metadata.RefuseUnread({"vocab_size", "tensor_data_layout", "rope.scaling.finetuned",
                         "rope.scaling.original_context_length", "attention.layer_norm_epsilon",
                         "attention.layer_norm_rms_epsilon"});
  return config.Text();
}

GgufConversions::GgufConversions(const GgufModel& model) {
  GgufMetadata metadata(model);
  architecture_ = &ArchitectureOf(metadata);
  if (!architecture_->interleaved) return;
  num_heads_ = metadata.Integer("attention.head_count");
  num_kv_heads_ = metadata.FindInteger("attention.head_count_kv").value_or(num_heads_);
}

GgufConversion GgufConversions::Of(const GgufTensor& tensor) const {
  GgufConversion conversion;
  const bool is_factors =
      tensor.name == "rope_factors_long.weight" || tensor.name == "rope_factors_short.weight";
  if (tensor.name == kFrequencies || (is_factors && architecture_->long_rope)) return conversion;
  conversion.name = HuggingFaceName(tensor.name, architecture_->names).value_or(tensor.name);
  conversion.plus_one = architecture_->norms_plus_one && tensor.name.ends_with("norm.weight");
  if (architecture_->interleaved) {
    const auto is = [&tensor](std::string_view part) {
      return tensor.name.find(part) != std::string::npos;
    };
    if (is(".attn_q.")) conversion.interleaved_heads = num_heads_;
    if (is(".attn_k.")) conversion.interleaved_heads = num_kv_heads_;
  }
  return conversion;
}

std::string GgufArchitectureNames() {
  std::string names;
  for (const GgufArchitecture& architecture : GgufArchitectures()) {
    names += (names.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return names;
}

}  // namespace longstream
