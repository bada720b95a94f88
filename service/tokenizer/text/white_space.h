// Finds white space (Unicode's property White_Space) in UTF-8 text.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_WHITE_SPACE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_WHITE_SPACE_H_

#include <cstddef>
#include <string_view>

namespace longstream {

// Returns where the white space that ends at `end` begins, but not less than `limit`.
size_t SpaceBegin(std::string_view text, size_t limit, size_t end);

// Returns where the white space that begins at `begin` ends.
size_t SpaceEnd(std::string_view text, size_t begin);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_WHITE_SPACE_H_
