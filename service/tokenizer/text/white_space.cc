// Looks characters up in ICU's tables.
#include "service/tokenizer/text/white_space.h"

#include <unicode/uchar.h>

#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

bool IsSpace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

}  // namespace

size_t SpaceBegin(std::string_view text, size_t limit, size_t end) {
  while (end > limit) {
    size_t before = end;
    if (!IsSpace(PreviousCodePoint(text, &before))) break;
    end = before;
  }
  return end;
}

size_t SpaceEnd(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t after = begin;
    if (!IsSpace(NextCodePoint(text, &after))) break;
    begin = after;
  }
  return begin;
}

}  // namespace longstream
