// Cuts texts only between UTF-8 characters.
#include "client/text_windows.h"

namespace longstream::client {
namespace {

// Whether a character begins or the text ends at `offset`.
bool IsBetweenCharacters(const std::string& text, size_t offset) {
  return offset >= text.size() || (static_cast<unsigned char>(text[offset]) & 0xc0) != 0x80;
}

}  // namespace

std::vector<std::string> Windows(const std::string& text, size_t bytes, size_t most) {
  if (bytes == 0) return {text};
  std::vector<std::string> windows;
  size_t begin = 0;
  while (bytes <= text.size() - begin && (most == 0 || windows.size() < most)) {
    size_t end = begin + bytes;
    while (end > begin && !IsBetweenCharacters(text, end)) --end;
    if (end == begin) {
      end = begin + bytes;
      while (!IsBetweenCharacters(text, end)) ++end;
    }
    windows.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return windows;
}

}  // namespace longstream::client
