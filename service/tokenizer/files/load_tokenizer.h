// Loads the tokenizer of a model directory.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_LOAD_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_LOAD_TOKENIZER_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// Reads tokenizer.json from model_dir, or tokenizer.model if there is no tokenizer.json. Also reads
// tokenizer_config.json if it exists. If the first two do not exist, makes the tokenizer of plain
// bytes, which needs vocab_size >= 256. `vocab_size` is the size of the model's vocabulary. If
// model_dir is a GGUF model (gguf.h), reads the tokenizer in its metadata instead.
//
// INVALID_ARGUMENT: a file is damaged, or an id is not below vocab_size. UNIMPLEMENTED: a model
// type, a normalizer, a pre-tokenizer, a pattern or a file format is not supported; the message
// names it.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::filesystem::path& model_dir,
                                                         int vocab_size);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_LOAD_TOKENIZER_H_
