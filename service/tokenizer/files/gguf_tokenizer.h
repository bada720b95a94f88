// Reads the tokenizer in the metadata of a GGUF model.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_TOKENIZER_H_

#include <optional>

#include "absl/status/statusor.h"
#include "backends/checkpoint/gguf/gguf_model.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Returns the tokenizer that the metadata describes, and sets *names. nullopt: the file has none.
//
// The model "gpt2" is BPE over bytes. tokenizer.ggml.pre names how the text is split, and stands
// for the normalizer and other settings of the tokenizer.json that was converted. The model "llama"
// is SentencePiece's BPE. Errors as for LoadTokenizer; they do not name the file.
absl::StatusOr<std::optional<TokenizerSpec>> ReadGgufTokenizer(const GgufModel& model,
                                                               int vocab_size,
                                                               SpecialTokenNames* names);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_TOKENIZER_H_
