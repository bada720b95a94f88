// Cuts a text into windows of a given number of bytes.
#ifndef LONGSTREAM_CLIENT_TEXT_WINDOWS_H_
#define LONGSTREAM_CLIENT_TEXT_WINDOWS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace longstream::client {

// Cuts the text into windows of `bytes` bytes and returns at most the first `most` windows (0:
// all). Drops the end of the text if it is shorter than a window. Cuts only between UTF-8
// characters: a character that would cross the end of a window begins the next window. A character
// longer than `bytes` is a window of its own. If `bytes` is 0, the whole text is one window.
std::vector<std::string> Windows(const std::string& text, size_t bytes, size_t most = 0);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_TEXT_WINDOWS_H_
