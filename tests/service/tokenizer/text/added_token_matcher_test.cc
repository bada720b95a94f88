// Added tokens in a text: which of several is found, and what their flags do.
#include "service/tokenizer/text/added_token_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace longstream {
namespace {

// The segments, as "text|[id]|...".
std::string Segments(const std::vector<AddedToken>& tokens, std::string_view text,
                     bool parse_special = true) {
  std::string out;
  for (const auto& segment : AddedTokenMatcher(tokens).Split(text, parse_special)) {
    out += segment.id ? "[" + std::to_string(*segment.id) + "]|" : std::string(segment.text) + "|";
  }
  return out;
}

AddedToken Token(int32_t id, std::string content) {
  AddedToken token;
  token.id = id;
  token.content = std::move(content);
  return token;
}

AddedToken Special(int32_t id, std::string content) {
  AddedToken token = Token(id, std::move(content));
  token.special = true;
  return token;
}

TEST(AddedTokenMatcher, WithoutTokensLeavesTheTextWhole) {
  EXPECT_EQ(Segments({}, "a<x>b"), "a<x>b|");
  EXPECT_EQ(Segments({}, ""), "");
}

TEST(AddedTokenMatcher, CutsTheTextAtTokens) {
  EXPECT_EQ(Segments({Token(7, "<x>")}, "a<x><x>b"), "a|[7]|[7]|b|");
  EXPECT_EQ(Segments({Token(7, "<x>")}, "<x>"), "[7]|");
  EXPECT_EQ(Segments({Token(7, "<x>")}, "<x<x>"), "<x|[7]|");
}

TEST(AddedTokenMatcher, TakesTheLeftmostThenTheLongest) {
  const std::vector<AddedToken> tokens = {Token(1, "ab"), Token(2, "abcd"), Token(3, "bc"),
                                          Token(4, "abcdef")};
  EXPECT_EQ(Segments(tokens, "abcd"), "[2]|");
  EXPECT_EQ(Segments(tokens, "abcde"), "[2]|e|");
  EXPECT_EQ(Segments(tokens, "abc"), "[1]|c|");
  EXPECT_EQ(Segments(tokens, "xbcd"), "x|[3]|d|");
}

TEST(AddedTokenMatcher, ReadsSpecialTokensAsTextWhereAsked) {
  const std::vector<AddedToken> tokens = {Special(1, "<s>"), Token(2, "<t>")};
  EXPECT_EQ(Segments(tokens, "a<s>b<t>"), "a|[1]|b|[2]|");
  EXPECT_EQ(Segments(tokens, "a<s>b<t>", false), "a<s>b|[2]|");
}

TEST(AddedTokenMatcher, StripsWhiteSpace) {
  AddedToken left = Token(1, "L");
  left.lstrip = true;
  AddedToken right = Token(2, "R");
  right.rstrip = true;
  const std::vector<AddedToken> tokens = {left, right};
  EXPECT_EQ(Segments(tokens, "a \t\u3000L b"), "a|[1]| b|");
  EXPECT_EQ(Segments(tokens, "a R \u00a0\nb"), "a |[2]|b|");
  EXPECT_EQ(Segments(tokens, "a R  L b"), "a |[2]|[1]| b|")
      << "R should strip the spaces between the tokens";
  EXPECT_EQ(Segments(tokens, " L"), "[1]|");
  EXPECT_EQ(Segments(tokens, "R "), "[2]|");
}

TEST(AddedTokenMatcher, TakesSingleWordsOnly) {
  AddedToken word = Token(1, "word");
  word.single_word = true;
  for (const std::string neighbour : {"s", "\u00e9", "5", "_", "\u0301", "\u200d", "語"}) {
    EXPECT_EQ(Segments({word}, "word" + neighbour), "word" + neighbour + "|");
    EXPECT_EQ(Segments({word}, neighbour + "word"), neighbour + "word|");
  }
  for (const std::string neighbour : {" ", ".", "-", "\u200b", "²", "🛑"}) {
    EXPECT_EQ(Segments({word}, "word" + neighbour), "[1]|" + neighbour + "|");
    EXPECT_EQ(Segments({word}, neighbour + "word"), neighbour + "|[1]|");
  }
}

}  // namespace
}  // namespace longstream
