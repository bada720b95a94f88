// Ranges of bytes in a text.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_RANGE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_RANGE_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace longstream {

// The bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Whether one of the ranges contains a byte of [begin, end). REQUIRES: the ranges ascend and do not
// overlap.
inline bool AnyWithin(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  const auto first = std::partition_point(
      ranges.begin(), ranges.end(), [&](const ByteRange& range) { return range.end <= begin; });
  return first != ranges.end() && first->begin < end;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_BYTE_RANGE_H_
