// Writes code points in UTF-8.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_APPEND_UTF8_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_APPEND_UTF8_H_

#include <string>

namespace longstream {

// Appends the code point in UTF-8. REQUIRES: at most 0x10ffff. A surrogate gives three bytes, which
// are not UTF-8.
void AppendUtf8(char32_t c, std::string* text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_APPEND_UTF8_H_
