// Reads tokenizer.json as Hugging Face's library `tokenizers` does. Features that TokenizerSpec
// cannot express are refused with an error that names them.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Errors as for LoadTokenizer.
absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const std::filesystem::path& path, int vocab_size);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_TOKENIZER_JSON_H_
