#include "service/grammar/formats/ebnf_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/counted.h"
#include "service/grammar/formats/format_error.h"
#include "service/tokenizer/text/append_utf8.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

}  // namespace

void EbnfReader::FailAt(size_t offset, std::string_view text) const {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < offset; NextCodePoint(source_, &i)) {
    const bool is_line_end = source_[i] == '\n';
    line += is_line_end ? 1 : 0;
    column = is_line_end ? 1 : column + 1;
  }
  FailFormat(absl::StrCat("line ", line, ", column ", column, ": ", std::string(text)));
}

std::string EbnfReader::Next() const {
  if (AtEnd()) return "the end";
  if (AtLineEnd()) return "the end of the line";
  size_t end = offset_;
  NextCodePoint(source_, &end);
  return absl::StrCat("'", Shown(source_.substr(offset_, end - offset_)), "'");
}

bool EbnfReader::Skip(std::string_view text) {
  if (!Sees(text)) return false;
  offset_ += text.size();
  return true;
}

char32_t EbnfReader::TakeCharacter() { return NextCodePoint(source_, &offset_); }

void EbnfReader::SkipSpace(bool with_lines) {
  while (!AtEnd()) {
    const char c = source_[offset_];
    if (c == '#') {
      offset_ = std::min(source_.find_first_of("\r\n", offset_), source_.size());
    } else if (c == ' ' || c == '\t' || (with_lines && (c == '\n' || c == '\r'))) {
      ++offset_;
    } else {
      break;
    }
  }
}

bool EbnfReader::AtLineBegin() const {
  const size_t last = source_.substr(0, offset_).find_last_not_of(" \t");
  return last == std::string_view::npos || source_[last] == '\n' || source_[last] == '\r';
}

std::string_view EbnfReader::ReadName() {
  const size_t begin = offset_;
  while (!AtEnd() && IsNameCharacter(source_[offset_])) ++offset_;
  return source_.substr(begin, offset_ - begin);
}

char32_t EbnfReader::ReadCharacter(size_t begin, std::string_view end) {
  if (AtLineEnd()) FailAt(begin, absl::StrCat("there is no ", std::string(end), " in this line"));
  const size_t offset = offset_;
  const char32_t c = TakeCharacter();
  if (c != '\\') return c;
  if (AtLineEnd()) FailAt(offset, "a backslash at the end of the line");
  const char32_t letter = TakeCharacter();
  switch (letter) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'x':
      return ReadHex(offset, 2);
    case 'u':
      return ReadHex(offset, 4);
    case 'U':
      return ReadHex(offset, 8);
    case '"':
    case '\\':
    case '[':
    case ']':
    case '-':
    case '^':
      return letter;
    default:
      FailAt(offset, "this escape is not supported");
  }
}

char32_t EbnfReader::ReadHex(size_t offset, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = AtEnd() ? ' ' : source_[offset_];
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      FailAt(offset, absl::StrCat("the escape needs ", digits, " hexadecimal digits"));
    }
    ++offset_;
    value = value << 4 | digit;
  }
  if (value > kMaxCodePoint || IsSurrogate(value)) FailAt(offset, "this is no character");
  return value;
}

std::string EbnfReader::ReadLiteral() {
  const size_t begin = offset_ - 1;
  std::string text;
  while (!Skip("\"")) AppendUtf8(ReadCharacter(begin, "closing '\"'"), &text);
  return text;
}

CodePointSet EbnfReader::ReadClass() {
  const size_t begin = offset_ - 1;
  const bool is_complement = Skip("^");
  std::vector<CodePoints> ranges;
  while (!Skip("]")) {
    const size_t offset = offset_;
    const char32_t first = ReadCharacter(begin, "']'");
    char32_t last = first;
    if (Sees("-") && !Sees("-]")) {
      Skip("-");
      last = ReadCharacter(begin, "']'");
      if (first > last) FailAt(offset, "the range is in the wrong order");
    }
    ranges.push_back({first, last});
  }
  if (ranges.empty()) FailAt(begin, "the class is empty");
  CodePointSet set = Normalized(ranges);
  return is_complement ? Complement(set) : set;
}

std::optional<uint32_t> EbnfReader::ReadNumber() {
  const size_t begin = offset_;
  uint32_t number = 0;
  for (; !AtEnd() && source_[offset_] >= '0' && source_[offset_] <= '9'; ++offset_) {
    number = 10 * number + static_cast<uint32_t>(source_[offset_] - '0');
    if (number > kMostRepeats) FailAt(begin, absl::StrCat("a count exceeds ", kMostRepeats));
  }
  return offset_ == begin ? std::nullopt : std::optional(number);
}

void EbnfReader::ReadCount(uint32_t* least, std::optional<uint32_t>* most) {
  const size_t begin = offset_ - 1;
  SkipSpace(false);
  const std::optional<uint32_t> first = ReadNumber();
  SkipSpace(false);
  const bool has_comma = Skip(",");
  SkipSpace(false);
  const std::optional<uint32_t> second = has_comma ? ReadNumber() : first;
  SkipSpace(false);
  if (!first.has_value() || !Skip("}")) FailAt(begin, "a count is {m}, {m,} or {m,n}");
  if (second.has_value() && *second < *first) FailAt(begin, "the counts are in the wrong order");
  *least = *first;
  *most = second;
}

}  // namespace longstream
