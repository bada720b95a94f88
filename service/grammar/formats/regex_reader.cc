// Escapes have ECMAScript's meaning: \d and \w are ASCII, \s is Unicode's white space.
#include "service/grammar/formats/regex_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/format_error.h"
#include "service/tokenizer/text/append_utf8.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

CodePointSet Digits() { return {{'0', '9'}}; }
CodePointSet WordCharacters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CodePointSet WhiteSpace() {
  return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

bool IsLetterOrDigit(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool IsOne(const CodePointSet& set) { return set.size() == 1 && set[0].first == set[0].last; }

std::string Named(char32_t c) {
  std::string text = "\\";
  AppendUtf8(c, &text);
  return Shown(text);
}

}  // namespace

CodePointSet LineEnds() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

void RegexReader::FailAt(size_t offset, std::string_view text) {
  FailFormat(absl::StrCat("at byte ", offset, ": ", std::string(text)));
}

bool RegexReader::Skip(std::string_view text) {
  if (!Sees(text)) return false;
  offset_ += text.size();
  return true;
}

char32_t RegexReader::TakeCharacter() { return NextCodePoint(pattern_, &offset_); }

CodePointSet RegexReader::ReadClass(size_t offset) {
  const bool is_complement = Skip("^");
  if (Sees("]")) FailAt(offset, "a class may not be empty, and ']' in a class needs a backslash");
  std::vector<CodePoints> ranges;
  while (!Skip("]")) {
    const size_t begin = offset_;
    const CodePointSet first = ReadClassMember(offset);
    // A '-' at the end of a class, or beside an escape such as \d, is a character.
    if (IsOne(first) && Sees("-") && !Sees("-]")) {
      Skip("-");
      const CodePointSet last = ReadClassMember(offset);
      if (IsOne(last)) {
        if (first[0].first > last[0].first) FailAt(begin, "the range is in the wrong order");
        ranges.push_back({first[0].first, last[0].first});
        continue;
      }
      ranges.push_back({'-', '-'});
      ranges.insert(ranges.end(), last.begin(), last.end());
    }
    ranges.insert(ranges.end(), first.begin(), first.end());
  }
  CodePointSet set = Normalized(ranges);
  return is_complement ? Complement(set) : set;
}

CodePointSet RegexReader::ReadClassMember(size_t offset) {
  if (AtEnd()) FailAt(offset, "'[' without ']'");
  if (Sees("[:")) Fail("classes such as [:alpha:] are not supported");
  if (Sees("\\")) return ReadEscape(/*in_class=*/true);
  const char32_t c = TakeCharacter();
  return {{c, c}};
}

CodePointSet RegexReader::ReadEscape(bool in_class) {
  const size_t offset = offset_;
  Skip("\\");
  if (AtEnd()) FailAt(offset, "a backslash at the end");
  const char32_t letter = TakeCharacter();
  std::optional<CodePointSet> set = ReadEscapedClass(offset, letter);
  if (set.has_value()) return *std::move(set);
  const char32_t c = ReadEscapedCharacter(offset, letter, in_class);
  if (IsSurrogate(c)) FailAt(offset, "half of a surrogate pair is no character");
  return {{c, c}};
}

std::optional<CodePointSet> RegexReader::ReadEscapedClass(size_t offset, char32_t letter) {
  switch (letter) {
    case 'd':
      return Digits();
    case 'D':
      return Complement(Digits());
    case 'w':
      return WordCharacters();
    case 'W':
      return Complement(WordCharacters());
    case 's':
      return WhiteSpace();
    case 'S':
      return Complement(WhiteSpace());
    case 'p':
      return ReadCategory(offset, /*is_complement=*/false);
    case 'P':
      return ReadCategory(offset, /*is_complement=*/true);
    default:
      return std::nullopt;
  }
}

CodePointSet RegexReader::ReadCategory(size_t offset, bool is_complement) {
  // The sets of categories are large.
  constexpr int kMostCategories = 100;
  if (++categories_ > kMostCategories) FailAt(offset, "at most 100 \\p and \\P");
  std::string name;
  if (Skip("{")) {
    while (!AtEnd() && !Sees("}")) AppendUtf8(TakeCharacter(), &name);
    if (!Skip("}")) FailAt(offset, "'{' without '}'");
  } else if (!AtEnd()) {
    AppendUtf8(TakeCharacter(), &name);
  }
  std::optional<CodePointSet> set = CodePointsOfCategory(name);
  if (!set.has_value()) {
    FailAt(offset, absl::StrCat("the property '", Shown(name),
                                "' is not supported, only general categories such as L and Nd"));
  }
  return is_complement ? Complement(*set) : *std::move(set);
}

char32_t RegexReader::ReadEscapedCharacter(size_t offset, char32_t letter, bool in_class) {
  switch (letter) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'x':
      return Sees("{") ? ReadHexInBraces(offset) : ReadHex(offset, 2);
    case 'u':
      return Sees("{") ? ReadHexInBraces(offset) : ReadUnicodeEscape(offset);
    case 'c': {
      const char32_t control = AtEnd() ? 0 : TakeCharacter() | 0x20;
      if (control < 'a' || control > 'z') FailAt(offset, "\\c needs a letter");
      return control & 0x1F;
    }
    case '0':
      if (!AtEnd() && rest()[0] >= '0' && rest()[0] <= '9') {
        FailAt(offset, "octal escapes are not supported");
      }
      return 0;
    case 'b':
      if (in_class) return '\b';
      [[fallthrough]];
    case 'B':
      FailAt(offset, absl::StrCat("the boundary ", Named(letter), " is not supported"));
    default:
      break;
  }
  if ((letter >= '1' && letter <= '9') || letter == 'k') {
    FailAt(offset, "back-references are not supported");
  }
  if (IsLetterOrDigit(letter)) {
    FailAt(offset, absl::StrCat("the escape ", Named(letter), " is not supported"));
  }
  return letter;
}

char32_t RegexReader::ReadUnicodeEscape(size_t offset) {
  const char32_t high = ReadHex(offset, 4);
  if (high < 0xD800 || high > 0xDBFF || !Skip("\\u")) return high;
  const char32_t low = ReadHex(offset, 4);
  if (low < 0xDC00 || low > 0xDFFF) return high;  // which is an error
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

char32_t RegexReader::ReadHex(size_t offset, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const int digit = TakeHexDigit();
    if (digit < 0) {
      FailAt(offset, absl::StrCat("the escape needs ", digits, " hexadecimal digits"));
    }
    value = value << 4 | static_cast<char32_t>(digit);
  }
  return value;
}

char32_t RegexReader::ReadHexInBraces(size_t offset) {
  Skip("{");
  char32_t value = 0;
  int digits = 0;
  for (int digit = TakeHexDigit(); digit >= 0; digit = TakeHexDigit(), ++digits) {
    value = value << 4 | static_cast<char32_t>(digit);
    if (value > kMaxCodePoint) FailAt(offset, "the code point exceeds 10FFFF");
  }
  if (digits == 0 || !Skip("}")) FailAt(offset, "the escape needs hexadecimal digits in braces");
  return value;
}

int RegexReader::TakeHexDigit() {
  if (AtEnd()) return -1;
  const char c = pattern_[offset_];
  int digit = -1;
  if (c >= '0' && c <= '9') digit = c - '0';
  if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
  if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
  if (digit >= 0) ++offset_;
  return digit;
}

}  // namespace longstream
