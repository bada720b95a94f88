// The keys of tokenizer_config.json that matter to encoding and decoding.
#include "service/tokenizer/tokenizer_config.h"

#include <system_error>

#include "service/tokenizer/json_view.h"

namespace longstream {
namespace {

// A token's name stands there as a string, or as an object with its content.
std::optional<std::string> ReadTokenName(const JsonView& token) {
  if (!token.present()) return std::nullopt;
  return token.is_object() ? token["content"].String() : token.String();
}

}  // namespace

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& path) {
  TokenizerConfig config;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return config;
  absl::StatusOr<JsonFile> file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  const JsonView root(*file);
  config.names.bos = ReadTokenName(root["bos_token"]);
  config.names.eos = ReadTokenName(root["eos_token"]);
  if (!file->status().ok()) return file->status();
  return config;
}

}  // namespace longstream
