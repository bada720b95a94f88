// Checks whether texts are UTF-8, and repairs streams of bytes that are not.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_UTF8_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longstream {

// U+FFFD, which replaces invalid bytes.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

inline unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Returns the length in bytes of the longest valid prefix: text.size() if the whole text is UTF-8.
size_t ValidUtf8Prefix(std::string_view text);

// Returns the code point at `text[*offset]` and moves *offset behind it. REQUIRES: text is UTF-8.
char32_t NextCodePoint(std::string_view text, size_t* offset);

// Returns the code point that ends at `text[*offset - 1]` and moves *offset before it. REQUIRES:
// text is UTF-8, *offset > 0.
char32_t PreviousCodePoint(std::string_view text, size_t* offset);

// The replacement of a maximal subpart of an invalid sequence (Unicode standard, section 3.9).
enum class InvalidUtf8 {
  kOneReplacement,      // one U+FFFD
  kReplacementPerByte,  // one U+FFFD for each of its bytes
};

// Converts a stream of bytes, which may be cut anywhere, to UTF-8. The result does not depend on
// the cuts. Not thread-safe.
class Utf8Stream {
 public:
  // `pending`: what another stream held back, if this stream continues its bytes.
  explicit Utf8Stream(InvalidUtf8 invalid = InvalidUtf8::kOneReplacement,
                      std::string_view pending = {})
      : invalid_(invalid), pending_(pending) {}

  // Appends to *text all complete characters. Holds back an incomplete character at the end.
  void Push(std::string_view bytes, std::string* text);

  // If an incomplete character is held back, appends U+FFFD instead of it.
  void Finish(std::string* text);

  // The bytes that are held back, at most 3. Valid until the stream changes.
  std::string_view pending() const { return pending_; }

 private:
  void Replace(size_t length, std::string* text) const;

  InvalidUtf8 invalid_;
  std::string pending_;
};

// Returns the bytes with U+FFFD in place of the parts that are not UTF-8.
std::string RepairUtf8(std::string_view bytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_UTF8_H_
