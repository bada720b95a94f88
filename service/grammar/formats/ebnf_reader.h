// Reads the characters, names, literals and classes of a grammar.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_EBNF_READER_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_EBNF_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "service/grammar/formats/code_points.h"

namespace longstream {

// A grammar's source and a position in it. Throws FormatError.
class EbnfReader {
 public:
  // REQUIRES: source is UTF-8 and outlives the reader.
  explicit EbnfReader(std::string_view source) : source_(source) {}

  size_t offset() const { return offset_; }
  bool AtEnd() const { return offset_ == source_.size(); }
  bool Sees(std::string_view text) const { return rest().starts_with(text); }
  bool Skip(std::string_view text);
  // Goes back, or forward, to an offset that offset() returned.
  void MoveTo(size_t offset) { offset_ = offset; }

  // Skips spaces, tabs and comments; also line ends, if `with_lines`.
  void SkipSpace(bool with_lines);
  // Whether only spaces and tabs are before the position in its line.
  bool AtLineBegin() const;
  bool AtLineEnd() const { return AtEnd() || Sees("\n") || Sees("\r"); }

  // The name at the position; empty if there is none.
  std::string_view ReadName();
  // Reads the rest of a literal after its quote. Returns it in UTF-8.
  std::string ReadLiteral();
  // Reads the rest of a class after its '['.
  CodePointSet ReadClass();
  // Reads the rest of a count after its '{'.
  void ReadCount(uint32_t* least, std::optional<uint32_t>* most);

  [[noreturn]] void Fail(std::string_view text) const { FailAt(offset_, text); }
  [[noreturn]] void FailAt(size_t offset, std::string_view text) const;
  // The next character for an error: "'x'" or "the end".
  std::string Next() const;

 private:
  std::string_view rest() const { return source_.substr(offset_); }
  // REQUIRES: !AtEnd().
  char32_t TakeCharacter();
  // The next character of a literal or a class. `begin`: of the literal or class.
  char32_t ReadCharacter(size_t begin, std::string_view end);
  char32_t ReadHex(size_t offset, int digits);
  std::optional<uint32_t> ReadNumber();

  const std::string_view source_;
  size_t offset_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_EBNF_READER_H_
