// Marks in the text of a model, such as "<think>", which may arrive in pieces.
#ifndef LONGSTREAM_GATEWAY_ANSWERS_MARKS_H_
#define LONGSTREAM_GATEWAY_ANSWERS_MARKS_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace longstream::gateway {

// The number of bytes at the end of `text` that may be the beginning of the mark.
inline size_t BeginningAtEnd(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANSWERS_MARKS_H_
