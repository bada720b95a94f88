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
#include "service/tokenizer/files/model_file.h"

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
  const absl::StatusOr<std::optional<std::string>> text =
      FindModelFile(std::filesystem::path(directory) / "config.json");
  if (!text.ok() || !text->has_value()) return Json::object();
  Json config = Json::parse(QuoteNonFinite(**text), nullptr, /*allow_exceptions=*/false);
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
  const uint64_t shared = std::max(Number(config, "shared_expert_intermediate_size"),
                                   Number(config, "shared_intermediate_size"));
  const uint64_t experts = SumOf(ProductOf(chosen, SumOf(hidden, width)), SumOf(hidden, shared));
  return std::max(mlp, experts);
}

}  // namespace

uint64_t ExpectedWeights(const std::string& directory) {
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

ExpectedMemory ExpectedMemory::Of(const ModelSource& source) {
  ExpectedMemory expected;
  expected.weights = ExpectedWeights(source.directory);
  const Json config = ReadConfig(source.directory);
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
