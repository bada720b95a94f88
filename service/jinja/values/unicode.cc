// Uses ICU with the root locale, because Python's str has no locale.
#include "service/jinja/values/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringoptions.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

UChar32 Icu(char32_t c) { return static_cast<UChar32>(c); }

bool Contains(std::string_view chars, char32_t c) {
  for (size_t at = 0; at < chars.size();) {
    if (NextCodePoint(chars, &at) == c) return true;
  }
  return false;
}

bool IsStripped(char32_t c, const std::string_view* chars) {
  return chars == nullptr ? IsSpace(c) : Contains(*chars, c);
}

// Returns a character in title case.
std::string ToTitle(std::string_view character) {
  std::string mapped;
  icu::StringByteSink<std::string> sink(&mapped);
  UErrorCode error = U_ZERO_ERROR;
  icu::CaseMap::utf8ToTitle("", U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT, nullptr,
                            {character.data(), static_cast<int32_t>(character.size())}, sink,
                            nullptr, error);
  return mapped;
}

using CaseMapper = void (*)(const char*, uint32_t, icu::StringPiece, icu::ByteSink&, icu::Edits*,
                            UErrorCode&);

std::string Mapped(std::string_view text, CaseMapper map) {
  std::string mapped;
  icu::StringByteSink<std::string> sink(&mapped, static_cast<int32_t>(text.size()));
  UErrorCode error = U_ZERO_ERROR;
  map("", 0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr, error);
  return mapped;
}

bool HasCase(std::string_view text, UProperty wanted, UProperty other) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const UChar32 c = Icu(NextCodePoint(text, &at));
    if (u_hasBinaryProperty(c, other) || u_istitle(c)) return false;
    found |= u_hasBinaryProperty(c, wanted) != 0;
  }
  return found;
}

}  // namespace

size_t CountCharacters(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), IsContinuation));
}

size_t OffsetOf(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!IsContinuation(text[at]) && index-- == 0) break;
  }
  return at;
}

bool IsSpace(char32_t c) { return (c >= 0x1C && c <= 0x1F) || u_isUWhiteSpace(Icu(c)) != 0; }

bool IsDigit(char32_t c) {
  const int32_t type = u_getIntPropertyValue(Icu(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool IsDecimal(char32_t c) {
  return u_getIntPropertyValue(Icu(c), UCHAR_NUMERIC_TYPE) == U_NT_DECIMAL;
}

bool IsNumeric(char32_t c) {
  return u_getIntPropertyValue(Icu(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool IsAlpha(char32_t c) { return u_isalpha(Icu(c)) != 0; }
bool IsAlnum(char32_t c) { return IsAlpha(c) || IsNumeric(c); }

size_t StripBegin(std::string_view text, const std::string_view* chars) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!IsStripped(NextCodePoint(text, &at), chars)) return begin;
  }
  return text.size();
}

size_t StripEnd(std::string_view text, size_t begin, const std::string_view* chars) {
  for (size_t at = text.size(); at > begin;) {
    const size_t end = at;
    if (!IsStripped(PreviousCodePoint(text, &at), chars)) return end;
  }
  return begin;
}

std::string Upper(std::string_view text) { return Mapped(text, &icu::CaseMap::utf8ToUpper); }
std::string Lower(std::string_view text) { return Mapped(text, &icu::CaseMap::utf8ToLower); }

std::string Casefold(std::string_view text) {
  std::string folded;
  icu::StringByteSink<std::string> sink(&folded, static_cast<int32_t>(text.size()));
  UErrorCode error = U_ZERO_ERROR;
  icu::CaseMap::utf8Fold(0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr, error);
  return folded;
}

std::string Capitalize(std::string_view text) {
  const size_t first = OffsetOf(text, 1);
  std::string result = ToTitle(text.substr(0, first));
  // Convert the whole text, because the lower-case form of a sigma depends on the characters before
  // it.
  const std::string lower = Lower(text);
  const std::string lower_first = Lower(text.substr(0, first));
  return result += lower.substr(std::min(lower.size(), lower_first.size()));
}

std::string Title(std::string_view text) {
  std::string result;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const UChar32 c = Icu(NextCodePoint(text, &at));
    const std::string_view character = text.substr(begin, at - begin);
    const bool cased = u_hasBinaryProperty(c, UCHAR_CASED) != 0;
    result += in_word ? Lower(character) : ToTitle(character);
    in_word = cased;
  }
  return result;
}

bool IsPrintable(char32_t c) {
  if (c == U' ') return true;
  constexpr uint32_t kHidden = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK |
                               U_GC_CN_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK | U_GC_ZS_MASK;
  return (U_GET_GC_MASK(Icu(c)) & kHidden) == 0;
}

bool IsUpper(std::string_view text) { return HasCase(text, UCHAR_UPPERCASE, UCHAR_LOWERCASE); }
bool IsLower(std::string_view text) { return HasCase(text, UCHAR_LOWERCASE, UCHAR_UPPERCASE); }

}  // namespace longstream::chat
