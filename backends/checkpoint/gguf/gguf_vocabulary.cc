// Reads the vocabulary in a GGUF model's metadata.
#include "backends/checkpoint/gguf/gguf_vocabulary.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "backends/errors/error.h"

namespace longstream {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";
// No vocabulary has more tokens.
constexpr uint64_t kMostTokens = uint64_t{1} << 22;

constexpr std::string_view kEnds[] = {
    "<|eot_id|>",    "<|eom_id|>",      "<|im_end|>", "<|end|>", "<|endoftext|>",
    "<end_of_turn>", "<|end_of_text|>", "<EOT>",      "[EOT]",
};

class Reader {
 public:
  explicit Reader(const GgufModel& model) : model_(model) {}

  const GgufValue* Find(const std::string& key) const {
    return model_.Find(std::string(kPrefix) + key);
  }

  [[noreturn]] void Invalid(const std::string& key, const std::string& problem) const {
    throw BackendError(LS_INVALID_ARGUMENT, model_.path() + ": " + kPrefix + key + " " + problem);
  }

  [[noreturn]] void Expected(const std::string& key, const std::string& expected) const {
    const GgufValue* const value = Find(key);
    Invalid(key,
            "must be " + expected + ", found " + (value == nullptr ? "nothing" : value->Found()));
  }

  std::optional<int64_t> Id(const std::string& key, size_t num_tokens) const {
    const GgufValue* const value = Find(key);
    if (value == nullptr) return std::nullopt;
    const std::optional<int64_t> id = value->Integer();
    // Some files have 2^32 - 1 in place of no id.
    if (id == int64_t{UINT32_MAX} || id == -1) return std::nullopt;
    if (!id || *id < 0 || *id >= static_cast<int64_t>(num_tokens)) {
      Expected(key, "an id below " + std::to_string(num_tokens) + ", the number of tokens");
    }
    return id;
  }

  void RequireCount(const std::string& key, size_t count, size_t num_tokens) const {
    if (count == num_tokens) return;
    Invalid(key, "must have one value for each of " + std::to_string(num_tokens) +
                     " tokens, found " + std::to_string(count));
  }

 private:
  const GgufModel& model_;
};

std::vector<GgufTokenKind> ReadKinds(const Reader& reader, size_t num_tokens) {
  const char* key = "token_type";
  const GgufValue* const value = reader.Find(key);
  if (value == nullptr) return std::vector<GgufTokenKind>(num_tokens, GgufTokenKind::kNormal);
  const std::optional<std::vector<int64_t>> numbers = value->Integers(kMostTokens);
  if (!numbers) reader.Expected(key, "a list of integers");
  reader.RequireCount(key, numbers->size(), num_tokens);
  std::vector<GgufTokenKind> kinds;
  kinds.reserve(num_tokens);
  for (const int64_t number : *numbers) {
    if (number < 1 || number > 6) {
      reader.Invalid(key, "must be from 1 to 6, found " + std::to_string(number));
    }
    kinds.push_back(static_cast<GgufTokenKind>(number));
  }
  return kinds;
}

void ReadIds(const Reader& reader, GgufVocabulary* vocabulary) {
  const size_t count = vocabulary->tokens.size();
  vocabulary->bos = reader.Id("bos_token_id", count);
  vocabulary->eos = reader.Id("eos_token_id", count);
  vocabulary->unknown = reader.Id("unknown_token_id", count);
  vocabulary->padding = reader.Id("padding_token_id", count);
  if (vocabulary->model == "llama" && count > 2) {
    if (reader.Find("bos_token_id") == nullptr) vocabulary->bos = 1;
    if (reader.Find("eos_token_id") == nullptr) vocabulary->eos = 2;
    if (reader.Find("unknown_token_id") == nullptr) vocabulary->unknown = 0;
  }
  std::vector<int64_t>& ends = vocabulary->ends;
  const auto add = [&ends](std::optional<int64_t> id) {
    if (id && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
  };
  add(vocabulary->eos);
  add(reader.Id("eot_token_id", count));
  add(reader.Id("eom_token_id", count));
  for (size_t id = 0; id < count; ++id) {
    if (vocabulary->kinds[id] != GgufTokenKind::kControl) continue;
    if (std::find(std::begin(kEnds), std::end(kEnds), vocabulary->tokens[id]) != std::end(kEnds)) {
      add(static_cast<int64_t>(id));
    }
  }
}

}  // namespace

GgufVocabulary ReadGgufVocabulary(const GgufModel& model) {
  const Reader reader(model);
  GgufVocabulary vocabulary;
  const GgufValue* const name = reader.Find("model");
  if (name == nullptr || name->String() == "none" || name->String() == "no_vocab")
    return vocabulary;
  if (!name->String()) reader.Expected("model", "a string");
  vocabulary.model = *name->String();
  const GgufValue* const tokens = reader.Find("tokens");
  if (tokens == nullptr || !tokens->Strings() || tokens->count > kMostTokens) {
    reader.Expected("tokens", "a list of strings");
  }
  vocabulary.tokens = *tokens->Strings();
  vocabulary.kinds = ReadKinds(reader, vocabulary.tokens.size());
  if (const GgufValue* const scores = reader.Find("scores")) {
    if (!scores->Floats()) reader.Expected("scores", "a list of single-precision numbers");
    reader.RequireCount("scores", scores->count, vocabulary.tokens.size());
    vocabulary.scores = *scores->Floats();
  }
  if (const GgufValue* const merges = reader.Find("merges")) {
    if (!merges->Strings()) reader.Expected("merges", "a list of strings");
    vocabulary.merges = *merges->Strings();
  }
  ReadIds(reader, &vocabulary);
  return vocabulary;
}

}  // namespace longstream
