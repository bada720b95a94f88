// Reads the configuration files of a tokenizer: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_CONFIG_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_CONFIG_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Settings that tokenizer.model does not have and these files do. The defaults are those of
// transformers for Llama.
struct TokenizerConfig {
  SpecialTokenNames names;
  bool add_bos = true;  // a sequence begins with the token `names.bos`
  // True: a space is put before every text after an added token. False: only before the first text.
  bool legacy = true;
  bool add_prefix_space = true;  // false: no text gets a space
  std::vector<AddedToken> added_tokens;
};

// Reads bos_token and eos_token from tokenizer_config.json in model_dir. Returns no names if the
// file does not exist. INVALID_ARGUMENT: the file is damaged.
absl::StatusOr<SpecialTokenNames> ReadSpecialTokenNames(const std::filesystem::path& model_dir);

// Reads all settings from the files in model_dir. INVALID_ARGUMENT: a file is damaged, or an id is
// not below vocab_size.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& model_dir,
                                                    int vocab_size);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_CONFIG_H_
