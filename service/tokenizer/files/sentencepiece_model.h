// Reads tokenizer.model, the file of the library SentencePiece, together with the added tokens of
// the files beside it. Anything that has no place in TokenizerSpec is refused by its name.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "service/tokenizer/files/tokenizer_config.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// The tokenizer of the file. Control tokens of the model are special added tokens; bos and eos are
// set in *config if it leaves them open. INVALID_ARGUMENT and UNIMPLEMENTED as LoadTokenizer.
absl::StatusOr<TokenizerSpec> ReadSentencePieceModel(const std::filesystem::path& path,
                                                     int vocab_size, TokenizerConfig* config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H_
