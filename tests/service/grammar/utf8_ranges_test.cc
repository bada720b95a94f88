// Tests the UTF-8 of ranges of code points.
#include "service/grammar/utf8_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace longstream {
namespace {

std::string Utf8(char32_t c) {
  const auto byte = [&](char32_t lead, int shift) {
    return static_cast<char>(lead | (shift == 0 || lead == 0x80 ? c >> shift & 0x3f : c >> shift));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {byte(0xc0, 6), byte(0x80, 0)};
  if (c < 0x10000) return {byte(0xe0, 12), byte(0x80, 6), byte(0x80, 0)};
  return {byte(0xf0, 18), byte(0x80, 12), byte(0x80, 6), byte(0x80, 0)};
}

size_t Matches(const std::vector<ByteRanges>& ranges, const std::string& bytes) {
  size_t matches = 0;
  for (const ByteRanges& range : ranges) {
    bool fits = range.length == bytes.size();
    for (size_t i = 0; fits && i < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      fits = range.ranges[i].first <= byte && byte <= range.ranges[i].last;
    }
    matches += fits ? 1 : 0;
  }
  return matches;
}

TEST(Utf8Ranges, NormalizedRangesAreDisjoint) {
  EXPECT_EQ(Normalized({{5, 9}, {1, 2}, {3, 3}, {8, 12}}),
            (std::vector<CodePoints>{{1, 3}, {5, 12}}));
  EXPECT_EQ(Normalized({{0xd000, 0xe000}, {0x10fff0, 0xffffffff}, {7, 6}}),
            (std::vector<CodePoints>{{0xd000, 0xd7ff}, {0xe000, 0xe000}, {0x10fff0, 0x10ffff}}));
  EXPECT_EQ(Complement({{0, 5}, {7, 0x10ffff}}), (std::vector<CodePoints>{{6, 6}}));
  EXPECT_EQ(Complement({}), (std::vector<CodePoints>{{0, 0xd7ff}, {0xe000, 0x10ffff}}));
  EXPECT_TRUE(Complement(Complement({})).empty());
}

TEST(Utf8Ranges, EachCharacterMatchesOnce) {
  std::mt19937 random(1);
  std::vector<CodePoints> ranges = Normalized({{0, 0x10ffff}});
  const std::vector<char32_t> edges = {0x7f,   0x80,   0x7ff,   0x800,   0xfff,
                                       0x1000, 0xffff, 0x10000, 0x3ffff, 0x40000};
  for (int i = 0; i < 300; ++i) {
    const auto draw = [&] {
      return random() % 2 == 0 ? edges[random() % edges.size()] + random() % 3
                               : random() % 0x110000;
    };
    const char32_t a = draw(), b = draw();
    for (const CodePoints& part : Normalized({{std::min(a, b), std::max(a, b)}})) {
      ranges.push_back(part);
    }
  }
  for (const CodePoints& range : ranges) {
    const std::vector<ByteRanges> bytes = Utf8Ranges(range);
    EXPECT_LE(bytes.size(), 30u);
    std::vector<char32_t> characters{range.first, range.last};
    for (const char32_t edge : edges) characters.push_back(edge);
    for (int i = 0; i < 200; ++i) characters.push_back(random() % 0x110000);
    for (const char32_t c : characters) {
      if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) continue;
      const std::string text = Utf8(c);
      EXPECT_EQ(Matches(bytes, text), range.first <= c && c <= range.last ? 1u : 0u)
          << std::hex << static_cast<uint32_t>(c) << " in " << static_cast<uint32_t>(range.first)
          << " to " << static_cast<uint32_t>(range.last);
    }
  }
}

}  // namespace
}  // namespace longstream
