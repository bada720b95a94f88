// UTF-8: the tables of the Unicode standard, and streams that give the same text however they are
// cut.
#include "service/tokenizer/text/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/service/tokenizer/text/times.h"

namespace longstream {
namespace {

std::string Repaired(const std::vector<std::string_view>& pieces) {
  Utf8Stream stream;
  std::string text;
  for (const std::string_view piece : pieces) stream.Push(piece, &text);
  stream.Finish(&text);
  return text;
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(ValidUtf8Prefix(""), 0u);
  EXPECT_EQ(ValidUtf8Prefix("plain text of more than eight bytes"), 35u);
  EXPECT_EQ(ValidUtf8Prefix("h\u00e9\u20ac\U0001F600"), 10u);
  EXPECT_EQ(ValidUtf8Prefix(std::string_view("a\0b", 3)), 3u);
  EXPECT_EQ(ValidUtf8Prefix("12345678\x80"), 8u);
  EXPECT_EQ(ValidUtf8Prefix("ab\xC0\xAF"), 2u) << "overlong";
  EXPECT_EQ(ValidUtf8Prefix("ab\xE0\x9F\xBF"), 2u) << "overlong";
  EXPECT_EQ(ValidUtf8Prefix("ab\xF0\x8F\xBF\xBF"), 2u) << "overlong";
  EXPECT_EQ(ValidUtf8Prefix("ab\xED\xA0\x80"), 2u) << "surrogate";
  EXPECT_EQ(ValidUtf8Prefix("ab\xF4\x90\x80\x80"), 2u) << "above U+10FFFF";
  EXPECT_EQ(ValidUtf8Prefix("ab\xF5\x80\x80\x80"), 2u) << "above U+10FFFF";
  EXPECT_EQ(ValidUtf8Prefix("ab\xE2\x82"), 2u) << "incomplete";
  EXPECT_EQ(ValidUtf8Prefix("\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80"), 10u)
      << "the largest and smallest valid code points";
}

TEST(Utf8, WalksCodePointsBothWays) {
  const std::string text = "a\u00e9\u20ac\U0001F600";
  const std::vector<char32_t> expected = {U'a', U'\u00e9', U'\u20ac', U'\U0001F600'};
  size_t offset = 0;
  for (const char32_t c : expected) EXPECT_EQ(NextCodePoint(text, &offset), c);
  EXPECT_EQ(offset, text.size());
  for (auto c = expected.rbegin(); c != expected.rend(); ++c) {
    EXPECT_EQ(PreviousCodePoint(text, &offset), *c);
  }
  EXPECT_EQ(offset, 0u);
}

struct RepairCase {
  std::string bytes;
  std::string text;
};

// Tables 3-8 to 3-11 of the Unicode standard 15, and truncated sequences.
std::vector<RepairCase> RepairCases() {
  const std::string_view r = kReplacementCharacter;
  return {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", Times(8, r) + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", Times(8, r) + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", Times(5, r) + "A" + Times(2, r) + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", Times(4, r) + "A"},
      {"caf\xC3", "caf" + Times(1, r)},
      {"\xF0\x9F\x98", Times(1, r)},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", Times(1, r) + "\U0001F600"},
      {"\xE2\x82\xE2\x82\xAC", Times(1, r) + "\u20ac"},
      {"a\u00e9\u20ac\U0001F600 z", "a\u00e9\u20ac\U0001F600 z"},
  };
}

TEST(Utf8Stream, ReplacesMaximalSubparts) {
  for (const auto& [bytes, text] : RepairCases()) EXPECT_EQ(Repaired({bytes}), text);
}

TEST(Utf8Stream, DoesNotDependOnTheCuts) {
  for (const auto& [bytes, text] : RepairCases()) {
    std::vector<std::string_view> single;
    for (size_t i = 0; i < bytes.size(); ++i) {
      single.push_back(std::string_view(bytes).substr(i, 1));
      EXPECT_EQ(
          Repaired({std::string_view(bytes).substr(0, i), "", std::string_view(bytes).substr(i)}),
          text);
    }
    EXPECT_EQ(Repaired(single), text);
  }
}

TEST(Utf8Stream, HoldsBackNoMoreThanAnIncompleteCharacter) {
  Utf8Stream stream;
  std::string text;
  stream.Push("ok \xF0\x9F\x98", &text);
  EXPECT_EQ(text, "ok ");
  EXPECT_EQ(stream.pending().size(), 3u);
  stream.Push("\x80!", &text);
  EXPECT_EQ(text, "ok \U0001F600!");
  EXPECT_EQ(stream.pending().size(), 0u);
  stream.Push("\xE2", &text);
  stream.Finish(&text);
  stream.Finish(&text);
  EXPECT_EQ(text, "ok \U0001F600!\uFFFD");
}

}  // namespace
}  // namespace longstream
