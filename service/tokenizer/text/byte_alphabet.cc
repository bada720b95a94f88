// Implements the byte alphabet of byte-level BPE.
#include "service/tokenizer/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

// The code point of the first of the 68 bytes that do not stand for themselves.
constexpr char32_t kFirstMoved = 0x100;
constexpr char32_t kEnd = 0x144;

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> CodePoints() {
  std::array<char32_t, 256> code_points{};
  char32_t next = kFirstMoved;
  for (int byte = 0; byte < 256; ++byte) {
    code_points[static_cast<size_t>(byte)] =
        StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return code_points;
}

constexpr std::array<char32_t, 256> kCodePoints = CodePoints();

// Returns the byte of each code point below kEnd, or -1 if it has none.
constexpr std::array<int16_t, kEnd> Bytes() {
  std::array<int16_t, kEnd> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) {
    bytes[kCodePoints[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, kEnd> kByteOf = Bytes();

}  // namespace

std::string ByteToAlphabet(unsigned char byte) {
  const char32_t code_point = kCodePoints[byte];
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

std::optional<std::string> AlphabetToBytes(std::string_view text) {
  std::string bytes;
  for (size_t offset = 0; offset < text.size();) {
    const char32_t code_point = NextCodePoint(text, &offset);
    if (code_point >= kEnd || kByteOf[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[code_point]));
  }
  return bytes;
}

}  // namespace longstream
