// UTF-8 as it arrives from outside: checking whole texts, and repairing streams of bytes.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_UTF8_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longstream {

// U+FFFD replaces bytes that are no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Length in bytes of the longest valid prefix; text.size() if all of it is UTF-8.
size_t ValidUtf8Prefix(std::string_view text);

// The code point at `text[*offset]`, which must be valid UTF-8; moves *offset behind it.
char32_t NextCodePoint(std::string_view text, size_t* offset);

// The code point that ends at `text[*offset - 1]`; moves *offset before it. REQUIRES: *offset > 0.
char32_t PreviousCodePoint(std::string_view text, size_t* offset);

// The replacement of a maximal subpart of an invalid sequence (Unicode, section 3.9).
enum class InvalidUtf8 {
  kOneReplacement,      // one U+FFFD
  kReplacementPerByte,  // one U+FFFD for each of its bytes
};

// Turns a stream of bytes, cut anywhere, into UTF-8, so that the text does not depend on the cuts.
// Not thread-safe.
class Utf8Stream {
 public:
  explicit Utf8Stream(InvalidUtf8 invalid = InvalidUtf8::kOneReplacement) : invalid_(invalid) {}

  // Appends to *text all decided characters; an incomplete one at the end is held back.
  void Push(std::string_view bytes, std::string* text);

  // Appends U+FFFD if an incomplete character is held back, and forgets it.
  void Finish(std::string* text);

  // Bytes held back, at most 3.
  size_t pending() const { return pending_.size(); }

 private:
  void Replace(size_t length, std::string* text) const;

  InvalidUtf8 invalid_;
  std::string pending_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_UTF8_H_
