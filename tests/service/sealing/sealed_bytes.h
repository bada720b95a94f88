// Keys and bytes for the tests of sealed files.
#ifndef LONGSTREAM_TESTS_SERVICE_SEALING_SEALED_BYTES_H_
#define LONGSTREAM_TESTS_SERVICE_SEALING_SEALED_BYTES_H_

#include <cstdint>
#include <string>

#include "service/sealing/sealing_keys.h"

namespace longstream {

// Keys with these ids, one letter each. A letter's key is always the same.
inline Sealing SealingWith(const std::string& ids, Compression compression = Compression::kNone) {
  std::string text;
  for (const char id : ids) {
    const char digit = "0123456789abcdef"[id % 16];
    text += std::string(1, id) + " " + std::string(64, digit) + "\n";
  }
  return {.keys = *SealingKeys::Parse(text, "test"), .compression = compression};
}

// Bytes without any order, or, if `plain` is set, bytes that repeat.
inline std::string SomeBytes(size_t size, uint64_t seed, bool plain = false) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    byte = plain ? 'p' : static_cast<char>(seed >> 56);
  }
  return bytes;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SEALING_SEALED_BYTES_H_
