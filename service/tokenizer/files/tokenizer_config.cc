// Reads the keys that affect encoding and decoding.
#include "service/tokenizer/files/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/files/json_view.h"
#include "service/tokenizer/files/model_file.h"

namespace longstream {
namespace {

// Reads a file if it exists.
absl::Status ReadFile(const std::filesystem::path& path,
                      absl::FunctionRef<void(const JsonView& root)> read) {
  if (!HasModelFile(path)) return absl::OkStatus();
  absl::StatusOr<JsonFile> file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  read(JsonView(*file));
  return file->status();
}

// The name of a token is a string, or an object whose key "content" holds the string.
std::optional<std::string> ReadTokenName(const JsonView& token) {
  if (!token.present()) return std::nullopt;
  return token.is_object() ? token["content"].String() : token.String();
}

void ReadNames(const JsonView& root, SpecialTokenNames* names) {
  if (!names->bos) names->bos = ReadTokenName(root["bos_token"]);
  if (!names->eos) names->eos = ReadTokenName(root["eos_token"]);
}

// Returns the id that a key of added_tokens_decoder spells.
uint64_t ReadId(const std::string& key, const JsonView& token) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size()) {
    token.Fail(absl::StrCat("expected an id as the key, found \"", key, "\""));
  }
  return id;
}

// ReadAddedTokensDecoder and ReadAddedTokens ignore ids beyond the model's vocabulary, as the
// reader of tokenizer.json does.
void ReadAddedTokensDecoder(const JsonView& tokens, int vocab_size, TokenizerConfig* config) {
  for (const auto& [key, token] : tokens.Members()) {
    const uint64_t id = ReadId(key, token);
    if (id >= static_cast<uint64_t>(vocab_size)) continue;
    AddedToken added;
    added.id = static_cast<int32_t>(id);
    added.content = token["content"].String();
    added.special = token["special"].Bool(false);
    added.single_word = token["single_word"].Bool(false);
    added.lstrip = token["lstrip"].Bool(false);
    added.rstrip = token["rstrip"].Bool(false);
    if (!added.content.empty()) config->added_tokens.push_back(std::move(added));
  }
}

// In older directories, added_tokens.json has only the texts and ids, without flags.
void ReadAddedTokens(const JsonView& root, int vocab_size, TokenizerConfig* config) {
  for (const auto& [text, id] : root.Members()) {
    if (id.Size() >= static_cast<size_t>(vocab_size)) continue;
    AddedToken added;
    added.id = id.Id(vocab_size);
    added.content = text;
    const auto is_same = [&](const AddedToken& token) { return token.content == added.content; };
    std::vector<AddedToken>& tokens = config->added_tokens;
    if (!text.empty() && std::none_of(tokens.begin(), tokens.end(), is_same)) {
      tokens.push_back(added);
    }
  }
}

// Three levels: the map, a list or an object in it, and an object for a token.
constexpr int kSpecialLevels = 3;

// Every text in special_tokens_map.json names a special token. It may stand alone, in an object
// with its flags, or in a list.
void MarkSpecial(const JsonView& names, int levels, TokenizerConfig* config) {
  if (levels < 0) {
    names.Fail("expected names of special tokens, found deeper nesting");
  } else if (names.is_string()) {
    const std::string name = names.String();
    for (AddedToken& token : config->added_tokens) {
      if (token.content == name) token.special = true;
    }
  } else if (names.is_array()) {
    for (const JsonView& name : names.Elements()) MarkSpecial(name, levels - 1, config);
  } else if (names["content"].present()) {
    MarkSpecial(names["content"], levels - 1, config);
  } else {
    for (const auto& [key, name] : names.Members()) MarkSpecial(name, levels - 1, config);
  }
}

}  // namespace

absl::StatusOr<SpecialTokenNames> ReadSpecialTokenNames(const std::filesystem::path& model_dir) {
  SpecialTokenNames names;
  absl::Status status = ReadFile(model_dir / "tokenizer_config.json",
                                 [&](const JsonView& root) { ReadNames(root, &names); });
  if (!status.ok()) return status;
  return names;
}

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& model_dir,
                                                    int vocab_size) {
  TokenizerConfig config;
  absl::Status status = ReadFile(model_dir / "tokenizer_config.json", [&](const JsonView& root) {
    ReadNames(root, &config.names);
    config.add_bos = root["add_bos_token"].Bool(config.add_bos);
    config.legacy = root["legacy"].Bool(config.legacy);
    config.add_prefix_space = root["add_prefix_space"].Bool(config.add_prefix_space);
    ReadAddedTokensDecoder(root["added_tokens_decoder"], vocab_size, &config);
  });
  if (!status.ok()) return status;
  status = ReadFile(model_dir / "added_tokens.json",
                    [&](const JsonView& root) { ReadAddedTokens(root, vocab_size, &config); });
  if (!status.ok()) return status;
  status = ReadFile(model_dir / "special_tokens_map.json", [&](const JsonView& root) {
    ReadNames(root, &config.names);
    MarkSpecial(root, kSpecialLevels, &config);
  });
  if (!status.ok()) return status;
  return config;
}

}  // namespace longstream
