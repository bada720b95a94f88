// Reads texts with a grammar.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_FITS_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_FITS_H_

#include <cstdint>
#include <string_view>

#include "service/grammar/matcher.h"

namespace longstream {

// Whether the matcher can read the text behind its own.
inline bool Reads(Matcher& matcher, std::string_view text) {
  for (const char byte : text) {
    if (!matcher.Push(static_cast<uint8_t>(byte))) return false;
  }
  return true;
}

inline bool Fits(const Grammar& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return Reads(matcher, text) && matcher.CanEnd();
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_FITS_H_
