// Reads tokenizer_config.json, which names special tokens beside a tokenizer's own file.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_CONFIG_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_CONFIG_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace longstream {

// Names of the special tokens in tokenizer_config.json.
struct SpecialTokenNames {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
};

struct TokenizerConfig {
  SpecialTokenNames names;
};

// What the file says; nothing where it does not exist. INVALID_ARGUMENT as Tokenizer::Load.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& path);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_CONFIG_H_
