// White space (Unicode's property White_Space) at the ends of stretches of UTF-8 text.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_WHITE_SPACE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_WHITE_SPACE_H_

#include <cstddef>
#include <string_view>

namespace longstream {

// The begin of the white space that ends at `end`, but not before `limit`.
size_t SpaceBegin(std::string_view text, size_t limit, size_t end);

// The end of the white space that begins at `begin`.
size_t SpaceEnd(std::string_view text, size_t begin);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_WHITE_SPACE_H_
