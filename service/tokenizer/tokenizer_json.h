// tokenizer.json as the parts of a byte-level BPE tokenizer; what has no place here is refused by
// its name. The keys and what they mean are those of Hugging Face's `tokenizers`.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_JSON_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_JSON_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace longstream {

// A token that is looked for in the text before anything else is done with it.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;  // only where no word character is next to it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool normalized = false;   // is looked for in the normalized text, in its own normalized form
};

// What becomes of the matches of a pattern and of the text between them.
enum class SplitBehavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

struct SplitRule {
  std::string pattern;
  bool literal = false;  // the pattern is a string, not a regular expression
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the text between the matches counts as the matches
};

struct TokenizerSpec {
  // Token texts are written in the byte alphabet (byte_alphabet.h).
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // by ascending text
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  std::vector<AddedToken> added_tokens;
  bool nfc = false;
  std::vector<SplitRule> splits;  // applied one after another, then:
  bool add_prefix_space = false;  // each piece gets a leading space where it has none, then:
  bool gpt2_split = false;        // each piece is split by GPT-2's pattern
  std::vector<int32_t> sequence_prefix;
};

// INVALID_ARGUMENT and UNIMPLEMENTED as Tokenizer::Load.
absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const std::filesystem::path& path, int vocab_size);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_JSON_H_
