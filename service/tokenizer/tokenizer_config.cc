// The keys of the files that matter to encoding and decoding.
#include "service/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/json_view.h"

namespace longstream {
namespace {

// Reads a file where it exists.
absl::Status ReadFile(const std::filesystem::path& path,
                      absl::FunctionRef<void(const JsonView& root)> read) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return absl::OkStatus();
  absl::StatusOr<JsonFile> file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  read(JsonView(*file));
  return file->status();
}

// A token's name stands there as a string, or as an object with its content.
std::optional<std::string> ReadTokenName(const JsonView& token) {
  if (!token.present()) return std::nullopt;
  return token.is_object() ? token["content"].String() : token.String();
}

void ReadNames(const JsonView& root, SpecialTokenNames* names) {
  if (!names->bos) names->bos = ReadTokenName(root["bos_token"]);
  if (!names->eos) names->eos = ReadTokenName(root["eos_token"]);
}

// The key of added_tokens_decoder.
int32_t ReadId(const std::string& key, int vocab_size, const JsonView& token) {
  int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocab_size) {
    token.Fail(
        absl::StrCat("expected an id below ", vocab_size, " as the key, found \"", key, "\""));
    return 0;
  }
  return id;
}

void ReadAddedTokensDecoder(const JsonView& tokens, int vocab_size, TokenizerConfig* config) {
  for (const auto& [key, token] : tokens.Members()) {
    AddedToken added;
    added.id = ReadId(key, vocab_size, token);
    added.content = token["content"].String();
    added.special = token["special"].Bool(false);
    added.single_word = token["single_word"].Bool(false);
    added.lstrip = token["lstrip"].Bool(false);
    added.rstrip = token["rstrip"].Bool(false);
    if (!added.content.empty()) config->added_tokens.push_back(std::move(added));
  }
}

// Older directories have the texts and ids alone, without any flag.
void ReadAddedTokens(const JsonView& root, int vocab_size, TokenizerConfig* config) {
  for (const auto& [text, id] : root.Members()) {
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

// Every name in the map is of a special token.
void MarkSpecial(const JsonView& root, TokenizerConfig* config) {
  const auto mark = [config](const std::optional<std::string>& name) {
    for (AddedToken& token : config->added_tokens) {
      if (name == token.content) token.special = true;
    }
  };
  for (const auto& [key, value] : root.Members()) {
    if (key == "additional_special_tokens") {
      for (const JsonView& token : value.Elements()) mark(ReadTokenName(token));
    } else {
      mark(ReadTokenName(value));
    }
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
    MarkSpecial(root, &config);
  });
  if (!status.ok()) return status;
  return config;
}

}  // namespace longstream
