// Splits a range where the number of bytes changes, and where a byte other than the last would not
// take all its values.
#include "service/grammar/utf8_ranges.h"

#include <algorithm>

namespace longstream {
namespace {

constexpr char32_t kLast = 0x10ffff;
constexpr char32_t kBeforeSurrogates = 0xd7ff;
constexpr char32_t kBehindSurrogates = 0xe000;
// The last code points of 1, 2, 3 and 4 bytes.
constexpr std::array<char32_t, 4> kLastOfLength = {0x7f, 0x7ff, 0xffff, kLast};

size_t Length(char32_t c) {
  size_t length = 1;
  while (c > kLastOfLength[length - 1]) ++length;
  return length;
}

// Byte i of the UTF-8 of `c`, which has `length` bytes.
uint8_t Byte(char32_t c, size_t length, size_t i) {
  const char32_t bits = c >> (6 * (length - 1 - i));
  if (i > 0) return static_cast<uint8_t>(0x80 | (bits & 0x3f));
  constexpr std::array<uint8_t, 4> kFirst = {0, 0xc0, 0xe0, 0xf0};
  return static_cast<uint8_t>(kFirst[length - 1] | bits);
}

// Appends the parts of a range whose code points have the same length.
void Split(CodePoints range, std::vector<ByteRanges>* to) {
  const size_t length = Length(range.first);
  // If the two ends differ above the last i bytes, these bytes must take all their values.
  for (size_t i = 1; i < length; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // the bits of the last i bytes
    if ((range.first & ~low) == (range.last & ~low)) continue;
    if ((range.first & low) != 0) {
      Split({range.first, range.first | low}, to);
      Split({(range.first | low) + 1, range.last}, to);
      return;
    }
    if ((range.last & low) != low) {
      Split({range.first, (range.last & ~low) - 1}, to);
      Split({range.last & ~low, range.last}, to);
      return;
    }
  }
  ByteRanges ranges;
  ranges.length = length;
  for (size_t i = 0; i < length; ++i) {
    ranges.ranges[i] = {Byte(range.first, length, i), Byte(range.last, length, i)};
  }
  to->push_back(ranges);
}

}  // namespace

std::vector<CodePoints> Normalized(absl::Span<const CodePoints> ranges) {
  std::vector<CodePoints> parts;
  for (CodePoints range : ranges) {
    range.last = std::min(range.last, kLast);
    const CodePoints below = {range.first, std::min(range.last, kBeforeSurrogates)};
    const CodePoints above = {std::max(range.first, kBehindSurrogates), range.last};
    for (const CodePoints& part : {below, above}) {
      if (part.first <= part.last) parts.push_back(part);
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const CodePoints& a, const CodePoints& b) { return a.first < b.first; });
  std::vector<CodePoints> joined;
  for (const CodePoints& part : parts) {
    if (!joined.empty() && part.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, part.last);
    } else {
      joined.push_back(part);
    }
  }
  return joined;
}

std::vector<CodePoints> Complement(absl::Span<const CodePoints> ranges) {
  std::vector<CodePoints> others;
  char32_t next = 0;
  for (const CodePoints& range : Normalized(ranges)) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) others.push_back({next, kLast});
  return Normalized(others);
}

std::vector<ByteRanges> Utf8Ranges(CodePoints range) {
  std::vector<ByteRanges> found;
  for (const char32_t end : kLastOfLength) {
    if (range.first > end) continue;
    Split({range.first, std::min(range.last, end)}, &found);
    if (range.last <= end) break;
    range.first = end + 1;
  }
  return found;
}

}  // namespace longstream
