// The tokenizer of a model directory.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_LOAD_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_LOAD_TOKENIZER_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// Reads tokenizer.json, or without it tokenizer.model, from model_dir, and tokenizer_config.json if
// it is there. Without the first two it makes the tokenizer of plain bytes, which needs vocab_size
// >= 256. vocab_size is the model's.
//
// INVALID_ARGUMENT: a file is damaged, or an id is not below vocab_size. UNIMPLEMENTED: a model
// type, normalizer, pre-tokenizer, pattern or file format that is not supported, by its name.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::filesystem::path& model_dir,
                                                         int vocab_size);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_LOAD_TOKENIZER_H_
