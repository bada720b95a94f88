// A text in pieces.
#ifndef LONGSTREAM_CLIENT_TEXT_WINDOWS_H_
#define LONGSTREAM_CLIENT_TEXT_WINDOWS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace longstream::client {

// The text in windows of `bytes` (the last one dropped if it is shorter), at most `most` of them
// (0: all), cut between characters of UTF-8: before the one that crosses the limit, after it where
// a window holds no other. 0 bytes: all of it as one.
std::vector<std::string> Windows(const std::string& text, size_t bytes, size_t most = 0);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_TEXT_WINDOWS_H_
