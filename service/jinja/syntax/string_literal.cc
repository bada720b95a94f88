// Reads escapes such as
// , \x41, \u00e9 and \101.
#include "service/jinja/syntax/string_literal.h"

#include <charconv>
#include <cstdint>

#include "service/tokenizer/text/append_utf8.h"

namespace longstream::chat {
namespace {

void AppendCodePoint(std::string_view digits, size_t wanted, int base, Place place,
                     std::string* text) {
  uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
  if (digits.size() < wanted || error != std::errc() || end != digits.data() + digits.size()) {
    Fail("a string has an escape with too few digits", place);
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    Fail("a string has an escape that is not a character", place);
  }
  AppendUtf8(code, text);
}

// Returns the character of an escape with one letter, or 0 if there is no such escape.
char Simple(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return 0;
  }
}

size_t HexDigits(char letter) {
  if (letter == 'x') return 2;
  if (letter == 'u') return 4;
  return letter == 'U' ? 8 : 0;
}

}  // namespace

std::string UnescapeString(std::string_view body, Place place) {
  std::string text;
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      text += body[i++];
      continue;
    }
    const char letter = body[i + 1];
    i += 2;
    if (letter == '\n') continue;
    if (const char c = Simple(letter); c != 0) {
      text += c;
    } else if (const size_t digits = HexDigits(letter); digits > 0) {
      AppendCodePoint(body.substr(i, digits), digits, 16, place, &text);
      i += digits;
    } else if (letter >= '0' && letter <= '7') {
      size_t end = i;
      while (end < body.size() && end < i + 2 && body[end] >= '0' && body[end] <= '7') ++end;
      AppendCodePoint(body.substr(i - 1, end - i + 1), 1, 8, place, &text);
      i = end;
    } else if (letter == 'N') {
      FailUnsupported("the escape \\N in a string", place);
    } else {
      text += '\\';
      text += letter;
    }
  }
  return text;
}

}  // namespace longstream::chat
