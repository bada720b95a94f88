// How the tokenizers that llama.cpp knows split a text into words.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_SPLITS_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_SPLITS_H_

#include <string>
#include <string_view>
#include <vector>

#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// The settings for which a name of tokenizer.ggml.pre stands.
struct GgufSplit {
  std::string_view name;
  // The text is cut at the matches of each pattern in turn; each match is a word.
  std::vector<std::string_view> patterns{};
  bool gpt2 = false;           // then by GPT-2's pattern
  bool nfc = false;            // the tokenizer.json normalizes to NFC, which llama.cpp does not
  bool ignore_merges = false;  // TokenizerSpec::ignore_merges
  bool add_bos = false;        // if the file does not say
};

// nullptr: the name is unknown.
const GgufSplit* FindGgufSplit(std::string_view name);
std::vector<PreTokenizerStep> StepsOf(const GgufSplit& split);
// All names, as "llama-bpe, qwen2, ...".
std::string GgufSplitNames();

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_GGUF_SPLITS_H_
