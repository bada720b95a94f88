// Estimates a model's memory from the sizes of its files and the shapes in its config.json.
#include "service/models/expected_memory.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/status/statusor.h"
#include "backends/api/config_json.h"
#include "nlohmann/json.hpp"
#include "service/models/saturating.h"
#include "service/tokenizer/files/gguf.h"

namespace longstream {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kFloat = 4;  // bytes of a number, at most
// Rows of the width of the hidden state that a step has at the same time: the residual, the normed
// rows, queries, keys, values and the result of a mixer.
constexpr uint64_t kHiddenRows = 6;
constexpr uint64_t kPageTokens = 64;

uint64_t Number(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

Json ReadConfig(const std::string& directory) {
  const absl::StatusOr<ModelJson> file = FindConfig(directory);
  if (!file.ok() || !file->text) return Json::object();
  Json config = Json::parse(QuoteNonFinite(*file->text), nullptr, /*allow_exceptions=*/false);
  return config.is_object() ? config : Json::object();
}

// The numbers that a row has in a feed-forward part: gate and up or, of a mixture of experts, the
// row's copies for its experts, and their hidden numbers.
uint64_t FeedForwardNumbers(const Json& config, uint64_t hidden) {
  const uint64_t mlp = ProductOf(2, Number(config, "intermediate_size"));
  const uint64_t chosen = Number(config, "num_experts_per_tok");
  if (chosen == 0) return mlp;
  const uint64_t stated = Number(config, "moe_intermediate_size");
  const uint64_t width = stated > 0 ? stated : Number(config, "intermediate_size");
  const uint64_t shared = SumOf(std::max(Number(config, "shared_expert_intermediate_size"),
                                         Number(config, "shared_intermediate_size")),
                                ProductOf(Number(config, "num_shared_experts"), stated));
  const uint64_t experts = SumOf(ProductOf(chosen, SumOf(hidden, width)), SumOf(hidden, shared));
  return std::max(mlp, experts);
}

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool IsTrue(const Json& object, const char* key, bool absent) {
  const Json* found = Find(object, key);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : absent;
}

// Half bits that a weight takes in memory: with its share of a group's scale.
constexpr uint64_t kInt4 = 9, kInt8 = 17, k16Bits = 32, k32Bits = 64;

// The size of a quantised weight, in half bits.
struct WeightSize {
  uint64_t stored = 16;
  uint64_t in_memory = k16Bits;
};

// docs/checkpoints.md, Quantised checkpoints: integers of 4 bits become int4 if they are symmetric,
// else int8; symmetric integers of 8 bits become int8; all others become numbers of 16 bits.
// They need groups that are runs of inputs, of a multiple of 32 inputs or of all of them.
WeightSize SizeOfIntegers(uint64_t bits, bool symmetric, bool has_runs) {
  WeightSize size;
  size.stored = 2 * (bits == 4 ? 4 : 8);
  if (!has_runs) return size;
  if (bits == 4) size.in_memory = symmetric ? kInt4 : kInt8;
  if (bits == 8 && symmetric) size.in_memory = kInt8;
  return size;
}

// Whether groups of this size have whole groups of ours. A group that covers all inputs has them
// too, but only the shapes of the weights say so: such a model is expected to be larger than it is.
bool HasWholeGroups(const Json& section) { return Number(section, "group_size") % 32 == 0; }

// Whether the inputs of compressed-tensors are in the order of activations: true, "group" or
// "dynamic" (an older word for it). The orders "weight" and "static" keep runs.
bool IsReordered(const Json& weights) {
  const Json* const order = Find(weights, "actorder");
  return order != nullptr && (*order == true || *order == "group" || *order == "dynamic");
}

WeightSize SizeOfQuantised(const Json& section) {
  const Json* method = Find(section, "quant_method");
  const bool is_awq = method != nullptr && *method == "awq";
  if (is_awq || (method != nullptr && *method == "gptq")) {
    return SizeOfIntegers(Number(section, "bits"), !is_awq && IsTrue(section, "sym", true),
                          !IsTrue(section, "desc_act", false) && HasWholeGroups(section));
  }
  WeightSize largest;
  const Json* groups = Find(section, "config_groups");
  if (groups == nullptr || !groups->is_object()) return largest;  // FP8
  largest.in_memory = 0;
  for (const auto& [name, group] : groups->items()) {
    const Json* weights = Find(group, "weights");
    if (weights == nullptr || !weights->is_object()) continue;
    const Json* type = Find(*weights, "type");
    const WeightSize size =
        type != nullptr && *type == "float"
            ? WeightSize()
            : SizeOfIntegers(Number(*weights, "num_bits"), IsTrue(*weights, "symmetric", true),
                             !IsReordered(*weights) && HasWholeGroups(*weights));
    if (size.in_memory * largest.stored > largest.in_memory * size.stored) largest = size;
  }
  return largest.in_memory == 0 ? WeightSize() : largest;
}

// The bytes in memory of weights whose files have `bytes`. The embeddings and the head are taken as
// not quantised.
uint64_t BytesInMemory(const Json& config, const std::string& options_json, uint64_t bytes) {
  const Json* section = Find(config, "quantization_config");
  if (section == nullptr) section = Find(config, "compression_config");
  if (section == nullptr || !section->is_object()) return bytes;
  WeightSize size = SizeOfQuantised(*section);
  const Json options = Json::parse(options_json, nullptr, /*allow_exceptions=*/false);
  if (const Json* weights = Find(options, "weights")) {
    if (*weights == "int4") size.in_memory = kInt4;
    if (*weights == "int8") size.in_memory = kInt8;
    if (*weights == "f16" || *weights == "bf16") size.in_memory = k16Bits;
    if (*weights == "f32") size.in_memory = k32Bits;
  }
  const uint64_t tables = IsTrue(config, "tie_word_embeddings", false) ? 1 : 2;
  const uint64_t table =
      ProductOf(Number(config, "vocab_size"), ProductOf(2, Number(config, "hidden_size")));
  const uint64_t plain = std::min(bytes, ProductOf(tables, table));
  return SumOf(plain, ProductOf((bytes - plain) / size.stored, size.in_memory));
}

uint64_t FileBytes(const std::string& directory) {
  std::error_code error;
  uint64_t bytes = 0;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".safetensors") continue;
    std::error_code no_size;
    const uint64_t size = std::filesystem::file_size(it->path(), no_size);
    if (!no_size) bytes = SumOf(bytes, size);
  }
  return bytes;
}

uint64_t WeightBytes(const Json& config, const ModelSource& source) {
  const Json options = Json::parse(source.options_json, nullptr, /*allow_exceptions=*/false);
  const Json* const type = Find(options, "weights");
  const absl::StatusOr<std::optional<GgufWeights>> gguf = FindGgufWeights(
      source.directory,
      type != nullptr && type->is_string() ? type->get<std::string>() : std::string("auto"));
  if (gguf.ok() && gguf->has_value()) return (*gguf)->bytes_in_memory;
  return BytesInMemory(config, source.options_json, FileBytes(source.directory));
}

}  // namespace

uint64_t ExpectedWeights(const ModelSource& source) {
  return WeightBytes(ReadConfig(source.directory), source);
}

ExpectedMemory ExpectedMemory::Of(const ModelSource& source) {
  ExpectedMemory expected;
  const Json config = ReadConfig(source.directory);
  expected.weights = WeightBytes(config, source);
  const uint64_t hidden = Number(config, "hidden_size");
  const uint64_t row = SumOf(ProductOf(kHiddenRows, hidden), FeedForwardNumbers(config, hidden));
  expected.workspace =
      ProductOf(kFloat, SumOf(ProductOf(source.max_batch_tokens, row),
                              ProductOf(source.max_batch_sequences, Number(config, "vocab_size"))));
  const uint64_t heads = std::max<uint64_t>(1, Number(config, "num_attention_heads"));
  const uint64_t key_heads = Number(config, "num_key_value_heads");
  const uint64_t head = std::max(Number(config, "head_dim"), hidden / heads);
  const uint64_t keys_and_values =
      ProductOf(2, ProductOf(head, key_heads == 0 ? heads : std::min(heads, key_heads)));
  expected.least_caches = ProductOf(kFloat, ProductOf(Number(config, "num_hidden_layers"),
                                                      ProductOf(kPageTokens, keys_and_values)));
  return expected;
}

uint64_t ExpectedMemory::Sum() const { return SumOf(SumOf(weights, workspace), least_caches); }

}  // namespace longstream
