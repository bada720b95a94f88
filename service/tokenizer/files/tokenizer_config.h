// Reads the files beside a tokenizer's own: tokenizer_config.json, special_tokens_map.json and
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

// Settings that a tokenizer.model leaves to the files beside it; the defaults are transformers' for
// Llama.
struct TokenizerConfig {
  SpecialTokenNames names;
  bool add_bos = true;           // a sequence begins with the token `names.bos`
  bool legacy = true;            // each text after an added token gets a space, not the first alone
  bool add_prefix_space = true;  // false: none gets one
  std::vector<AddedToken> added_tokens;
};

// bos_token and eos_token of tokenizer_config.json in model_dir; none if there is no such file.
// INVALID_ARGUMENT as LoadTokenizer.
absl::StatusOr<SpecialTokenNames> ReadSpecialTokenNames(const std::filesystem::path& model_dir);

// All settings of the files in model_dir. INVALID_ARGUMENT as LoadTokenizer.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::filesystem::path& model_dir,
                                                    int vocab_size);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_CONFIG_H_
