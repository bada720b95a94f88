// A tokenizer as its files describe it. The readers (tokenizer_json.h, sentencepiece_model.h) make
// it, and the stages are made from it. Data only.
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

// A string, or a regular expression (regex.h).
struct PatternSpec {
  std::string text;
  bool literal = false;
};

// One step of the normalizer, applied to a text between added tokens.
struct NormalizerStep {
  enum class Kind {
    kNfc,             // Unicode form C
    kPrepend,         // `text` goes before a text that is not empty, where `scheme` says so
    kReplace,         // `text` takes the place of each match of `pattern`
    kStrip,           // white space at the ends (`left`, `right`) goes
    kCharsmap,        // the characters map of `text` (charsmap.h), grapheme by grapheme
    kSentencePiece,   // `text` is such a map, used as SentencePiece does: longest match first
    kCollapseSpaces,  // spaces at the ends go, and all but the first of a run
  };
  Kind kind = Kind::kNfc;
  std::string text;
  PatternSpec pattern;
  bool left = false;
  bool right = false;
  PrependScheme scheme = PrependScheme::kAlways;
};

// How a split treats the matches of a pattern and the text between them.
enum class SplitBehavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

// One step of the pre-tokenizer; it works on each piece that the step before it gave.
struct PreTokenizerStep {
  enum class Kind {
    kSplit,        // cuts at the matches of `pattern`
    kPrefixSpace,  // each piece gets a leading space where it has none
    kGpt2Split,    // cuts by GPT-2's pattern
    kMetaspace,    // spaces become `mark`, which also goes before pieces (`scheme`); then, if
                   // `split`, a piece begins at each mark
  };
  Kind kind = Kind::kSplit;
  PatternSpec pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the text between the matches counts as the matches
  std::string mark;
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = false;
};

// How the texts of tokens become text again.
struct DecoderSpec {
  // The texts are written in the byte alphabet (byte_alphabet.h); nothing else below applies.
  bool byte_level = false;
  std::vector<std::pair<std::string, std::string>> replacements;  // applied to each text, in order
  bool byte_fallback = false;                                     // "<0x0A>" is the byte 0x0A
  size_t strip_spaces = 0;  // at most so many spaces at the beginning of a sequence go
  std::string first_drops;  // the first token of a sequence loses every such mark; empty: none
};

struct TokenizerSpec {
  enum class Model { kBpe, kUnigram };

  Model model = Model::kBpe;
  // The texts that words are made of. With byte_level they are written in the byte alphabet.
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // by ascending text
  // Tokens that words do not produce: control tokens, and the bytes of a SentencePiece model.
  std::vector<std::pair<std::string, int32_t>> reserved;
  bool byte_level = false;        // words are sequences of bytes, not of characters
  bool byte_fallback = false;     // a character without a token is given by the tokens of its bytes
  std::optional<int32_t> unk_id;  // a character without either becomes this, or nothing
  bool fuse_unk = false;          // one unk_id for several such characters in a row

  // BPE.
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<uint32_t> merge_ranks;  // of `merges`; empty: the place in the list is the rank
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say

  // Unigram: a score for each text of the vocabulary.
  std::vector<double> scores;
  double unk_score = 0;
  bool single_precision = false;  // sums of scores are rounded to float, as SentencePiece has them

  // SentencePiece's user-defined symbols: texts of the vocabulary, ascending, that are always taken
  // whole, the longest first. They are neither normalized nor merged with others.
  std::vector<std::string> symbols;

  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderSpec decoder;
  std::vector<int32_t> sequence_prefix;  // TokenizerInfo::sequence_prefix
};

// Names of special tokens.
struct SpecialTokenNames {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_SPEC_TOKENIZER_SPEC_H_
