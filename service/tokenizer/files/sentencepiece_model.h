// Reads tokenizer.model, the file format of the library SentencePiece, and adds the tokens of the
// configuration files. Features that TokenizerSpec cannot express are refused with an error that
// names them.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "service/tokenizer/files/tokenizer_config.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Returns the tokenizer that the file describes. Control tokens of the model become special added
// tokens. If *config has no names for bos and eos, sets them. Errors as for LoadTokenizer.
absl::StatusOr<TokenizerSpec> ReadSentencePieceModel(const std::filesystem::path& path,
                                                     int vocab_size, TokenizerConfig* config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H_
