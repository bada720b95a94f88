// The description of a tokenizer, as plain data. The readers of files (tokenizer_json.h,
// sentencepiece_model.h) make it, and PipelineTokenizer makes its stages from it.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_SPEC_TOKENIZER_SPEC_H_
#define LONGSTREAM_SERVICE_TOKENIZER_SPEC_TOKENIZER_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/tokenizer/spec/text_place.h"

namespace longstream {

// A token that is looked for in the text before the other stages.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;  // matches only if no word character is next to it
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool normalized = false;   // its normalized form is looked for in the normalized text
};

// A literal string or a regular expression (regex.h).
struct PatternSpec {
  std::string text;
  bool literal = false;
};

// One step of the normalizer. It is applied to each text between added tokens.
struct NormalizerStep {
  enum class Kind {
    kNfc,             // converts to a normalization form of Unicode, as do kNfd, kNfkc, kNfkd
    kPrepend,         // puts `text` before the texts that `scheme` names, unless they are empty
    kReplace,         // replaces each match of `pattern` by `text`
    kStrip,           // removes white space at the ends (`left`, `right`)
    kCharsmap,        // applies the characters map `text` (charsmap.h) to each grapheme
    kSentencePiece,   // applies the map `text` as SentencePiece does: longest match first
    kCollapseSpaces,  // removes spaces at the ends, and all but the first of each run
    kNfd,
    kNfkc,
    kNfkd,
  };
  Kind kind = Kind::kNfc;
  std::string text;
  PatternSpec pattern;
  bool left = false;
  bool right = false;
  PrependScheme scheme = PrependScheme::kAlways;
  bool to_emptied = false;  // kPrepend also puts `text` where other steps have left no text
};

// How a split treats the matches of a pattern and the texts between them.
enum class SplitBehavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

// One step of the pre-tokenizer. It is applied to each piece that the previous step made.
struct PreTokenizerStep {
  enum class Kind {
    kSplit,        // cuts at the matches of `pattern`
    kPrefixSpace,  // puts a space before each piece that has none
    kGpt2Split,    // cuts by GPT-2's pattern
    kMetaspace,    // replaces spaces by `mark`, puts `mark` before pieces (`scheme`); if `split`,
                   // begins a new piece at each mark
  };
  Kind kind = Kind::kSplit;
  PatternSpec pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // true: the texts between the matches count as the matches
  std::string mark;
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = false;
};

// How the texts of tokens are decoded to text.
struct DecoderSpec {
  // True: the texts are written in the byte alphabet (byte_alphabet.h), and the other fields are
  // not used.
  bool byte_level = false;
  std::vector<std::pair<std::string, std::string>> replacements;  // applied to each text, in order
  bool byte_fallback = false;                                     // "<0x0A>" is the byte 0x0A
  size_t strip_spaces = 0;  // removes at most this many spaces at the beginning of a sequence
  std::string first_drops;  // removed from the first token of a sequence; empty: nothing is
};

struct TokenizerSpec {
  enum class Model { kBpe, kUnigram };

  Model model = Model::kBpe;
  // The texts and ids of the tokens of which words consist. If byte_level is set, the texts are
  // written in the byte alphabet.
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // sorted by text
  // Tokens that the merges or scores never produce: control tokens, and the byte tokens of a
  // SentencePiece model.
  std::vector<std::pair<std::string, int32_t>> reserved;
  bool byte_level = false;     // words are sequences of bytes and not of characters
  bool byte_fallback = false;  // a character without a token becomes the tokens of its bytes
  // For characters without a token and without byte tokens; absent: they are omitted.
  std::optional<int32_t> unk_id;
  bool fuse_unk = false;  // a run of such characters becomes one unk_id and not several

  // BPE.
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<uint32_t> merge_ranks;  // ranks of `merges`; empty: the index is the rank
  bool ignore_merges = false;  // a word that is a token becomes that token without any merges

  // Unigram: a score for each text of the vocabulary.
  std::vector<double> scores;
  double unk_score = 0;
  bool single_precision = false;  // round sums of scores to float, as SentencePiece does

  // The user-defined symbols of SentencePiece: texts of the vocabulary, in ascending order. Symbols
  // are not normalized. BPE makes a symbol in the text one token and merges it with nothing; if
  // several begin at one place, the longest counts. A unigram model goes by their scores.
  std::vector<std::string> symbols;

  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderSpec decoder;
  std::vector<int32_t> sequence_prefix;  // TokenizerInfo::sequence_prefix
};

// The names of special tokens.
struct SpecialTokenNames {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_SPEC_TOKENIZER_SPEC_H_
