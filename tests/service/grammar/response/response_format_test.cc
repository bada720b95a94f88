// Tests formats that are made of other ones.
#include "service/grammar/response/response_format.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/grammar/matcher.h"

namespace longstream {
namespace {

using Kind = ResponseFormat::Kind;

bool Fits(const Grammar& grammar, std::string_view text) {
  Matcher matcher(grammar);
  for (const char byte : text) {
    if (!matcher.Push(static_cast<uint8_t>(byte))) return false;
  }
  return matcher.CanEnd();
}

// Texts of at most 8 letters, against a search in them.
TEST(ResponseFormat, TextWithoutIsASearch) {
  for (const std::string part : {"a", "ab", "aab", "abab", "aabaa", "abcab"}) {
    const Grammar grammar = *Compile({Kind::kTextWithout, part});
    std::vector<std::string> texts{""};
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(Fits(grammar, texts[i]), texts[i].find(part) == std::string::npos)
          << part << " in " << texts[i];
      if (texts[i].size() == 7) continue;
      for (const char letter : {'a', 'b', 'c'}) texts.push_back(texts[i] + letter);
    }
  }
  const Grammar grammar = *Compile({Kind::kTextWithout, "äöä"});
  EXPECT_TRUE(Fits(grammar, "äö äöö"));
  EXPECT_FALSE(Fits(grammar, "öäöä"));
}

TEST(ResponseFormat, PartsFollowEachOther) {
  const ResponseFormat digit{Kind::kRegex, "[0-9]"};
  const ResponseFormat some{.kind = Kind::kRepeat, .parts = {digit}, .least = 1, .most = 2};
  const ResponseFormat either{.kind = Kind::kAnyOf, .parts = {some, {Kind::kText, "none"}}};
  const Grammar grammar = *Compile(
      {.kind = Kind::kSequence, .parts = {{Kind::kText, "<"}, either, {Kind::kText, ">"}}});
  for (const char* fits : {"<1>", "<42>", "<none>"}) EXPECT_TRUE(Fits(grammar, fits)) << fits;
  for (const char* other : {"<>", "<123>", "1", "<none"})
    EXPECT_FALSE(Fits(grammar, other)) << other;
}

TEST(ResponseFormat, EqualPartsAreCompiledOnce) {
  const ResponseFormat large{Kind::kRegex, "[a-z]{500}"};
  const Grammar one = *Compile(large);
  const Grammar five =
      *Compile({.kind = Kind::kAnyOf, .parts = {large, large, large, large, large}});
  EXPECT_LT(five.num_nodes(), one.num_nodes() + 20);
}

TEST(ResponseFormat, ErrorsNameThePart) {
  const ResponseFormat wrong{Kind::kRegex, "("};
  const ResponseFormat repeat{.kind = Kind::kRepeat, .parts = {wrong}};
  const auto grammar = Compile({.kind = Kind::kSequence, .parts = {{Kind::kText, "a"}, repeat}});
  const std::string message(grammar.status().message());
  EXPECT_TRUE(message.starts_with("sequence.formats[1].repeat.format.regex: ")) << message;
}

TEST(ResponseFormat, OnlyEqualFormatsHaveTheSameKey) {
  const std::vector<ResponseFormat> formats = {
      {Kind::kText, "a"},
      {Kind::kText, "b"},
      {Kind::kRegex, "a"},
      {.kind = Kind::kSequence, .parts = {{Kind::kText, "a"}, {Kind::kText, "b"}}},
      {.kind = Kind::kSequence, .parts = {{Kind::kText, "ab"}}},
      {.kind = Kind::kRepeat, .parts = {{Kind::kText, "a"}}},
      {.kind = Kind::kRepeat, .parts = {{Kind::kText, "a"}}, .least = 1},
      {.kind = Kind::kRepeat, .parts = {{Kind::kText, "a"}}, .most = 1},
      {.kind = Kind::kRepeat, .parts = {{Kind::kText, "a"}}, .most = 0},
  };
  for (size_t i = 0; i < formats.size(); ++i) {
    for (size_t j = 0; j < formats.size(); ++j) {
      EXPECT_EQ(KeyOf(formats[i]) == KeyOf(formats[j]), i == j) << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace longstream
