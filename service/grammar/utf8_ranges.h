// Splits ranges of code points into sequences of byte ranges.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_UTF8_RANGES_H_
#define LONGSTREAM_SERVICE_GRAMMAR_UTF8_RANGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace longstream {

// A range of code points, both ends included.
struct CodePoints {
  char32_t first = 0;
  char32_t last = 0;

  friend bool operator==(const CodePoints&, const CodePoints&) = default;
};

// The ranges in order, disjoint, without surrogates and values above 0x10ffff. Neighbours are
// joined.
std::vector<CodePoints> Normalized(absl::Span<const CodePoints> ranges);

// The code points that are in none of the ranges, normalized.
std::vector<CodePoints> Complement(absl::Span<const CodePoints> ranges);

// Byte strings of one length: byte i is in range i.
struct ByteRanges {
  struct Range {
    uint8_t first = 0;
    uint8_t last = 0;
  };
  size_t length = 0;
  std::array<Range, 4> ranges{};
};

// The UTF-8 of all code points of the range: its bytes are in exactly one of the results. REQUIRES:
// the range is normalized.
std::vector<ByteRanges> Utf8Ranges(CodePoints range);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_UTF8_RANGES_H_
