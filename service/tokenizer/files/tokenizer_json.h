// Reads tokenizer.json with the keys and meanings of Hugging Face's `tokenizers`. Anything that has
// no place in TokenizerSpec is refused by its name.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// INVALID_ARGUMENT and UNIMPLEMENTED as LoadTokenizer.
absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const std::filesystem::path& path, int vocab_size);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_H_
