// Reads the characters, the escapes and the classes of a regular expression.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_READER_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_READER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "service/grammar/formats/code_points.h"

namespace longstream {

// The characters that `.` does not match.
CodePointSet LineEnds();

// A pattern and a position in it. Throws FormatError.
class RegexReader {
 public:
  // REQUIRES: pattern is UTF-8 and outlives the reader.
  explicit RegexReader(std::string_view pattern) : pattern_(pattern) {}

  size_t offset() const { return offset_; }
  std::string_view rest() const { return pattern_.substr(offset_); }
  bool AtEnd() const { return offset_ == pattern_.size(); }
  bool Sees(std::string_view text) const { return rest().starts_with(text); }
  bool Skip(std::string_view text);
  // REQUIRES: !AtEnd().
  char32_t TakeCharacter();

  // Reads the rest of a class after its '['. `offset`: of the '['.
  CodePointSet ReadClass(size_t offset);
  // Reads an escape, from its backslash on.
  CodePointSet ReadEscape(bool in_class);

  [[noreturn]] void Fail(std::string_view text) const { FailAt(offset_, text); }
  [[noreturn]] static void FailAt(size_t offset, std::string_view text);

 private:
  // One member of a class, or an end of one of its ranges.
  CodePointSet ReadClassMember(size_t offset);
  // The escapes that stand for several characters: \d, \p{L} ...
  std::optional<CodePointSet> ReadEscapedClass(size_t offset, char32_t letter);
  CodePointSet ReadCategory(size_t offset, bool is_complement);
  // The escapes that stand for one character.
  char32_t ReadEscapedCharacter(size_t offset, char32_t letter, bool in_class);
  char32_t ReadUnicodeEscape(size_t offset);
  // Reads `digits` hexadecimal digits.
  char32_t ReadHex(size_t offset, int digits);
  // Reads hexadecimal digits between braces.
  char32_t ReadHexInBraces(size_t offset);
  int TakeHexDigit();  // -1: the next character is none

  const std::string_view pattern_;
  size_t offset_ = 0;
  int categories_ = 0;  // that were read
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_REGEX_READER_H_
