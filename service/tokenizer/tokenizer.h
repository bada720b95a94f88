// Converts text to token ids and back.
//
// A tokenizer.json of Hugging Face describes a BPE model (over bytes or characters) or a unigram
// model. The ids are those of the library `tokenizers`. If there is no tokenizer.json, a
// tokenizer.model of SentencePiece describes one of these models, and the ids are those of the
// library `sentencepiece`. If there is neither file, the ids are plain bytes, 0 to 255.
// docs/tokenizers.md lists the supported features. The Unicode tables of PCRE2 (Unicode 14 in
// version 10.42) decide which characters are letters or digits; next to newer characters, ids may
// differ from those of the libraries.
//
// A tokenizer does not change after LoadTokenizer (files/load_tokenizer.h), so any number of
// threads may call its methods at the same time.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/tokenizer/text/byte_range.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {

struct EncodeOptions {
  // True: special tokens that the text spells out, such as "<|im_end|>", become their ids. False:
  // they are ordinary text; use this for text from a person who must not control the model. Added
  // tokens that are not special become their ids in both cases.
  bool parse_special = false;
  // True: the text continues other text, so no space is put before it. False: the text begins a
  // sequence or follows an added token, and some tokenizers put a space before it.
  bool continues = false;
  // For parse_special: the parts of the text that come from a person who must not control the
  // model. If a special token has a byte in one of them, it is ordinary text. The ranges ascend and
  // do not overlap.
  std::span<const ByteRange> foreign = {};
};

struct DecodeOptions {
  bool skip_special = false;  // true: special tokens give no text
  bool continues = false;     // true: the ids follow other ids that give text
};

// How the bytes of tokens become the text of a sequence.
struct DecodeRules {
  size_t strip_spaces = 0;  // at most this many spaces are removed at the beginning
  InvalidUtf8 invalid = InvalidUtf8::kOneReplacement;
};

// The properties of a tokenizer other than its vocabulary.
struct TokenizerInfo {
  // The number of the model's logits per position. Ids are in [0, vocab_size). Some ids may have no
  // token.
  int vocab_size = 0;
  // A hash of everything that affects the ids of a text. It is the same in every process and build.
  uint64_t fingerprint = 0;
  // The ids of bos_token and eos_token in tokenizer_config.json.
  std::optional<int32_t> bos_id = std::nullopt;
  std::optional<int32_t> eos_id = std::nullopt;
  // The ids that the post_processor of tokenizer.json puts before a text, such as
  // <|begin_of_text|>. Encode does not add them, because they belong only before the first text of
  // a session.
  std::vector<int32_t> sequence_prefix = {};
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // "bpe", "unigram" or "byte".
  virtual std::string_view kind() const = 0;

  // Returns the ids of a text. Never adds tokens that are not in the text. Takes O(n log n) time
  // with the patterns of the supported model families.
  //
  // INVALID_ARGUMENT: the text is not UTF-8 (the message gives the byte offset; the tokenizer of
  // plain bytes accepts any bytes), is longer than 512 MiB, or exceeds the step limit of the
  // pre-tokenizer's pattern.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              EncodeOptions options = {}) const {
    return EncodeText(text, options);
  }

  // Returns the ids of a text that follows the token `last`. If `last` is absent, the text begins a
  // sequence; then, unless the text has no ids, the result begins with sequence_prefix(). Sets
  // EncodeOptions::continues according to `last`. Errors as for Encode.
  absl::StatusOr<std::vector<int32_t>> EncodeAfter(std::optional<int32_t> last,
                                                   std::string_view text,
                                                   EncodeOptions options = {}) const;

  // Returns the bytes that a token stands for, which may be a part of a character. Empty if the id
  // has no token or is outside the vocabulary. Valid while the tokenizer exists.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  // Returns the bytes of a token that is the first token with text in its sequence. Some tokenizers
  // put a space before a sequence, and here remove that space from the token.
  virtual std::string_view FirstTokenBytes(int32_t id) const { return TokenBytes(id); }

  // Whether the id is a special token, which marks structure and is not text.
  virtual bool IsSpecial(int32_t id) const = 0;

  // Whether the ids of a text depend on EncodeOptions::continues.
  virtual bool puts_space_first() const { return false; }

  // Whether a text after this token continues other text (EncodeOptions::continues). A text without
  // a token before it never does.
  virtual bool ContinuesAfter(int32_t) const { return false; }

  virtual DecodeRules decode_rules() const { return {}; }

  // Returns the text of the ids: their bytes, converted by the decode rules. Always UTF-8.
  std::string Decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  int vocab_size() const { return info_.vocab_size; }
  uint64_t fingerprint() const { return info_.fingerprint; }
  std::optional<int32_t> bos_id() const { return info_.bos_id; }
  std::optional<int32_t> eos_id() const { return info_.eos_id; }
  std::span<const int32_t> sequence_prefix() const { return info_.sequence_prefix; }

 protected:
  explicit Tokenizer(TokenizerInfo info) : info_(std::move(info)) {}

 private:
  virtual absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view text,
                                                          EncodeOptions options) const = 0;

  TokenizerInfo info_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TOKENIZER_H_
