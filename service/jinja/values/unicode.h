// The Unicode part of Python's str: counting, white space, case.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_UNICODE_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_UNICODE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace longstream::chat {

// Every text here is UTF-8, as the caller has checked.

// Whether a byte is one that goes on a character.
inline bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
size_t CountCharacters(std::string_view text);
// Byte offset of the character `index`; text.size() if there are fewer characters.
size_t OffsetOf(std::string_view text, size_t index);

// str.isspace of one character.
bool IsSpace(char32_t c);
// The begin and the end of the text without the characters of `chars` around it; nullptr: without
// white space.
size_t StripBegin(std::string_view text, const std::string_view* chars);
size_t StripEnd(std::string_view text, size_t begin, const std::string_view* chars);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// The first character in title case, the others in lower case.
std::string Capitalize(std::string_view text);
// str.title: every run of letters capitalized.
std::string Title(std::string_view text);

// Whether repr() shows the character as it is.
bool IsPrintable(char32_t c);
// Whether there is a cased character and none of the other case.
bool IsUpper(std::string_view text);
bool IsLower(std::string_view text);

void AppendUtf8(char32_t c, std::string* text);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_UNICODE_H_
