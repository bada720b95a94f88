// Makes text from files safe to print in a sentence.
#include "backends/errors/quote.h"

namespace longstream {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

// The length of the UTF-8 character that starts at text[i], or 0 if none starts there. Accepts
// overlong forms: this function protects a terminal, it does not validate the text.
size_t CharacterBytes(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  size_t bytes = 1;
  if (lead >= 0xf8u || (lead >= 0x80u && lead < 0xc0u)) return 0;
  if (lead >= 0xf0u) {
    bytes = 4;
  } else if (lead >= 0xe0u) {
    bytes = 3;
  } else if (lead >= 0xc0u) {
    bytes = 2;
  }
  if (i + bytes > text.size()) return 0;
  for (size_t j = 1; j < bytes; ++j) {
    if (!IsContinuation(text[i + j])) return 0;
  }
  return bytes;
}

}  // namespace

std::string Shortened(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = CharacterBytes(text, i);
    if (out.size() + (bytes == 0 ? 1 : bytes) > max_bytes) return out + "...";
    const auto c = static_cast<unsigned char>(text[i]);
    if (bytes == 0 || c < 0x20u || c == 0x7fu) {
      out += '?';
      i += 1;
    } else {
      out += text.substr(i, bytes);
      i += bytes;
    }
  }
  return out;
}

std::string Quoted(std::string_view text) { return '"' + Shortened(text) + '"'; }

}  // namespace longstream
