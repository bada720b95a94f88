// Hand-made maps of characters: what they find, and how damaged maps fail.
#include "service/tokenizer/text/charsmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace longstream {
namespace {

using testing::HasSubstr;

std::string Bytes(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// A double array with the texts "a" -> offset 0 and "ab" -> offset 2 of `texts`. The root has
// offset 1, so "a" (0x61) is at unit 1 ^ 0x61 = 0x60. That unit has a leaf and offset 0x80: its
// value is at 0x60 ^ 0x80 = 0xE0, and "b" (0x62) after it is at 0xE0 ^ 0x62 = 0x82. Unit 0x82 has a
// leaf and offset 1: its value is at 0x82 ^ 1 = 0x83.
std::string Blob(const std::string& texts = std::string("x\0yz\0", 5)) {
  constexpr uint32_t kLeaf = 1u << 8;
  std::vector<uint32_t> units(0x100, 0xFFu << 24 | 0xFFu);
  const auto offset = [](uint32_t value) { return value << 10; };
  units[0] = offset(1);
  units[0x60] = offset(0x80) | kLeaf | 0x61;
  units[0xE0] = 1u << 31 | 0;
  units[0x82] = offset(1) | kLeaf | 0x62;
  units[0x83] = 1u << 31 | 2;
  std::string blob = Bytes(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t unit : units) blob += Bytes(unit);
  return blob + texts;
}

TEST(Charsmap, FindsTheLongestAndTheShortestText) {
  const auto map = Charsmap::Create(Blob());
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_TRUE(map->Longest("abc").has_value());
  EXPECT_EQ(map->Longest("abc")->replacement, "yz");
  EXPECT_EQ(map->Longest("abc")->length, 2u);
  EXPECT_EQ(map->Shortest("abc")->replacement, "x");
  EXPECT_EQ(map->Shortest("abc")->length, 1u);
  EXPECT_EQ(map->Longest("ac")->replacement, "x");
  EXPECT_FALSE(map->Longest("b").has_value());
  EXPECT_FALSE(map->Longest("").has_value());
}

TEST(Charsmap, AnEmptyMapFindsNothing) {
  const auto map = Charsmap::Create("");
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_FALSE(map->Longest("a").has_value());
}

TEST(Charsmap, RefusesWhatIsNotOfItsForm) {
  const std::string blob = Blob();
  for (const std::string& damaged :
       {std::string("abc"), Bytes(400) + "ab", blob.substr(0, 600), blob.substr(0, blob.size() - 1),
        Bytes(0) + blob.substr(4), Bytes(1022) + blob.substr(4)}) {
    EXPECT_THAT(Charsmap::Create(damaged).status().message(), HasSubstr("expected the size"));
  }
  EXPECT_THAT(Charsmap::Create(Blob(std::string("x\0\xFFz\0", 5))).status().message(),
              HasSubstr("expected UTF-8 texts, found invalid UTF-8 at byte 2"));
}

TEST(Charsmap, LooksNowhereElseWhateverItsUnits) {
  std::mt19937 random(5);
  const std::string blob = Blob("\u00e9x" + std::string("\0", 1));
  for (int trial = 0; trial < 2000; ++trial) {
    std::string damaged = blob;
    for (int i = 0; i < 40; ++i) {
      damaged[4 + random() % 0x400] = static_cast<char>(random());
    }
    const auto map = Charsmap::Create(damaged);
    ASSERT_TRUE(map.ok()) << map.status();
    std::string text;
    for (int i = 0; i < 20; ++i) text += static_cast<char>(random() % 2 == 0 ? 'a' : random());
    for (const auto& match : {map->Longest(text), map->Shortest(text)}) {
      if (!match) continue;
      EXPECT_LE(match->length, text.size());
      EXPECT_TRUE(match->replacement == "\u00e9x" || match->replacement == "x" ||
                  match->replacement.empty())
          << match->replacement;
    }
  }
}

}  // namespace
}  // namespace longstream
