// Cuts a text into pieces.
#ifndef LONGSTREAM_CLIENT_TEXT_WINDOWS_H_
#define LONGSTREAM_CLIENT_TEXT_WINDOWS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace longstream::client {

// Cuts the text into windows of `bytes` and returns at most the first `most` of them (0: all).
// Drops the rest at the end that is shorter than a window. Cuts only between characters of UTF-8:
// before the character that crosses the limit, or behind it if it is the window's only one. With
// `bytes` 0 the whole text is one window.
std::vector<std::string> Windows(const std::string& text, size_t bytes, size_t most = 0);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_TEXT_WINDOWS_H_
