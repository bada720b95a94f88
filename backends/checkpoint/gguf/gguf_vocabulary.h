// The vocabulary in a GGUF model's metadata.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_VOCABULARY_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/checkpoint/gguf/gguf_model.h"

namespace longstream {

// The kinds of tokens, with their numbers in the file.
enum class GgufTokenKind : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Points into the model, which must outlive it.
struct GgufVocabulary {
  std::string_view model;                // tokenizer.ggml.model; empty: there is no vocabulary
  std::vector<std::string_view> tokens;  // by id
  std::vector<GgufTokenKind> kinds;      // one for each token
  std::vector<float> scores;             // one for each token, or empty
  std::vector<std::string_view> merges;  // "left right"
  std::optional<int64_t> bos;            // ids of tokens
  std::optional<int64_t> eos;
  std::optional<int64_t> unknown;
  std::optional<int64_t> padding;
  std::vector<int64_t> ends;  // eos, and the tokens that end a turn or a message
};

// Reads tokenizer.ggml.*. If the file names no ids, those of llama.cpp count: for the model "llama"
// bos 1, eos 2 and unknown 0. The ends of turns are also the control tokens whose texts are known
// to mean this, as in llama.cpp, because many files do not name them. BackendError
// (LS_INVALID_ARGUMENT): a value is missing or wrong, or lists have different lengths; the sentence
// names the key.
GgufVocabulary ReadGgufVocabulary(const GgufModel& model);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_VOCABULARY_H_
