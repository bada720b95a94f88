// Decodes UTF-8 and replaces what a page must not contain.
#include "client/compare/page/html_text.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace longstream::client {
namespace {

constexpr char32_t kReplacement = 0xfffd;

void Append(char32_t c, std::string* text) {
  const auto byte = [&](char32_t value) { text->push_back(static_cast<char>(value)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xc0 | c >> 6);
    byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    byte(0xe0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  } else {
    byte(0xf0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3f));
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  }
}

// Returns the code point at *offset and moves *offset behind it. Invalid bytes give U+FFFD, one for
// each byte.
char32_t Next(std::string_view text, size_t* offset) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at((*offset)++);
  if (first < 0x80) return first;
  const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc2 || first > 0xf4 || text.size() - *offset < more) return kReplacement;
  char32_t c = first & (0x3f >> more);
  for (size_t i = 0; i < more; ++i) {
    if ((at(*offset + i) & 0xc0) != 0x80) return kReplacement;
    c = c << 6 | (at(*offset + i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  const bool surrogate = c >= 0xd800 && c < 0xe000;
  if (c < kLeast[more] || surrogate || c > 0x10ffff) return kReplacement;
  *offset += more;
  return c;
}

bool ChangesDirection(char32_t c) {
  return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

bool IsNoCharacter(char32_t c) {
  return (c >= 0x80 && c < 0xa0) || (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
}

// Appends what stands for one code point.
void AppendEscaped(char32_t c, std::string* html) {
  switch (c) {
    case '&':
      *html += "&amp;";
      return;
    case '<':
      *html += "&lt;";
      return;
    case '>':
      *html += "&gt;";
      return;
    case '"':
      *html += "&quot;";
      return;
    case '\'':
      *html += "&#39;";
      return;
    case '\n':
      *html += "↵";
      return;
    case '\t':
      *html += "⇥";
      return;
    default:
      break;
  }
  if (c < 0x20) {
    Append(0x2400 + c, html);
  } else if (c == 0x7f) {
    Append(0x2421, html);
  } else if (ChangesDirection(c)) {
    char code[24];
    std::snprintf(code, sizeof(code), "⟨U+%04X⟩", static_cast<unsigned>(c));
    *html += code;
  } else {
    Append(IsNoCharacter(c) ? kReplacement : c, html);
  }
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) AppendEscaped(Next(text, &offset), &html);
  return html;
}

}  // namespace longstream::client
