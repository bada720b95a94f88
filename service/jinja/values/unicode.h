// The Unicode functions of Python's str: count characters, find white space, change case.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_UNICODE_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_UNICODE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace longstream::chat {

// REQUIRES, for all functions: the texts are UTF-8.

// Whether a byte continues a character of several bytes.
inline bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
size_t CountCharacters(std::string_view text);
// Returns the byte offset of the character `index`, or text.size() if there are fewer characters.
size_t OffsetOf(std::string_view text, size_t index);

// Whether Python's str.isspace is true for the character.
bool IsSpace(char32_t c);
// Whether Python's str.isdigit is true for the character.
bool IsDigit(char32_t c);
// Whether Python's str.isdecimal, isnumeric, isalpha or isalnum is true for the character.
bool IsDecimal(char32_t c);
bool IsNumeric(char32_t c);
bool IsAlpha(char32_t c);
bool IsAlnum(char32_t c);
// Return the beginning and the end of the text without the characters of `chars` at its ends.
// nullptr: without white space.
size_t StripBegin(std::string_view text, const std::string_view* chars);
size_t StripEnd(std::string_view text, size_t begin, const std::string_view* chars);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Casefold(std::string_view text);
// Python's str.capitalize: the first character in title case, the others in lower case.
std::string Capitalize(std::string_view text);
// Python's str.title: every run of letters capitalized.
std::string Title(std::string_view text);

// Whether Python's repr() shows the character unchanged.
bool IsPrintable(char32_t c);
// Python's str.isupper and str.islower: at least one character has this case and none has the
// other.
bool IsUpper(std::string_view text);
bool IsLower(std::string_view text);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_UNICODE_H_
