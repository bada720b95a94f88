// Text to token ids and back.
//
// A Hugging Face tokenizer.json gives BPE over bytes or characters and unigram models, with the ids
// of the `tokenizers` library. Without it, a SentencePiece tokenizer.model gives the same models,
// with the ids of the `sentencepiece` library. Without tokenizer files the ids are plain bytes, 0
// to 255. docs/tokenizers.md says what is read and what is refused. PCRE2's Unicode tables (10.42:
// Unicode 14) say which characters are letters or digits: around younger characters, ids may
// differ.
//
// A tokenizer does not change after LoadTokenizer (files/load_tokenizer.h): every method may be
// called from any number of threads.
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
  // True: special tokens spelled in the text, such as "<|im_end|>", become their ids. False: they
  // are text like any other; use it for text from somebody who must not steer the model. Added
  // tokens that are not special are recognised either way.
  bool parse_special = false;
  // The text goes on after other text, so it gets no space before it. (At the beginning of a
  // sequence, or after an added token, it may get one.)
  bool continues = false;
  // With parse_special: the parts of the text from somebody who must not steer the model. A special
  // token with a byte in them is text. Ascending, without overlaps.
  std::span<const ByteRange> foreign = {};
};

struct DecodeOptions {
  bool skip_special = false;  // special tokens give no text
  bool continues = false;     // the ids go on after others that give text
};

// How the bytes of a sequence's tokens become its text.
struct DecodeRules {
  size_t strip_spaces = 0;  // so many spaces are left out at its beginning
  InvalidUtf8 invalid = InvalidUtf8::kOneReplacement;
};

// A tokenizer's properties beside its vocabulary.
struct TokenizerInfo {
  // Rows of the model's logits; ids lie in [0, vocab_size). The tokenizer may leave some unused.
  int vocab_size = 0;
  // A hash of everything that decides which ids a text gets: the same in every process and build.
  uint64_t fingerprint = 0;
  // bos_token and eos_token of tokenizer_config.json.
  std::optional<int32_t> bos_id = std::nullopt;
  std::optional<int32_t> eos_id = std::nullopt;
  // The ids that the post_processor of tokenizer.json puts before a text, such as
  // <|begin_of_text|>. Encode does not add it: it belongs before the first text of a session only.
  std::vector<int32_t> sequence_prefix = {};
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // "bpe", "unigram" or "byte".
  virtual std::string_view kind() const = 0;

  // The ids of a text, in O(n log n) of its length for the patterns of the families above. Never
  // adds a token of its own.
  //
  // INVALID_ARGUMENT: the text is not UTF-8 (named by its byte offset; plain bytes take any text),
  // is longer than 512 MiB, or drives the pre-tokenizer's pattern over its step limit.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              EncodeOptions options = {}) const {
    return EncodeText(text, options);
  }

  // The ids of a text that follows the token `last`. If `last` is absent, the text begins a
  // sequence, and sequence_prefix() comes before its ids, unless there are none.
  // EncodeOptions::continues is set from `last`. Errors as Encode.
  absl::StatusOr<std::vector<int32_t>> EncodeAfter(std::optional<int32_t> last,
                                                   std::string_view text,
                                                   EncodeOptions options = {}) const;

  // The bytes a token stands for, which may be a part of a character. Empty for an id that has no
  // token and for one outside the vocabulary. Valid as long as the tokenizer.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  // The same for the first token of a sequence that gives text; some tokenizers write into it the
  // space that they put there.
  virtual std::string_view FirstTokenBytes(int32_t id) const { return TokenBytes(id); }

  // Whether the id is a special token, one that carries structure rather than text.
  virtual bool IsSpecial(int32_t id) const = 0;

  // Whether the ids of a text depend on EncodeOptions::continues.
  virtual bool puts_space_first() const { return false; }

  // Whether a text behind this token goes on after other text (EncodeOptions::continues). A text
  // with no token before it never does.
  virtual bool ContinuesAfter(int32_t) const { return false; }

  virtual DecodeRules decode_rules() const { return {}; }

  // The text of the ids: their bytes by the decode rules. Always UTF-8.
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
