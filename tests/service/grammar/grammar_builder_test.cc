// Tests the expressions of a grammar's builder, and its limits.
#include "service/grammar/grammar_builder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/grammar/matcher.h"
#include "tests/service/grammar/fits.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;

Grammar Build(GrammarBuilder& builder, Expression expression) {
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, expression);
  return *builder.Build(start);
}

TEST(GrammarBuilder, ALiteralIsItself) {
  GrammarBuilder builder;
  const Grammar grammar = Build(builder, builder.Literal(std::string_view("a\0\xff", 3)));
  EXPECT_TRUE(Fits(grammar, std::string_view("a\0\xff", 3)));
  EXPECT_FALSE(Fits(grammar, "a"));
  EXPECT_FALSE(Fits(grammar, ""));
}

TEST(GrammarBuilder, CharactersAreUtf8) {
  GrammarBuilder builder;
  const Grammar grammar = Build(
      builder, builder.Character({{U'a', U'c'}, {U'ä', U'ö'}, {U'\U0001f600', U'\U0001f64f'}}));
  for (const char* fits : {"a", "c", "ä", "ö", "\xF0\x9F\x98\x80", "\xF0\x9F\x99\x8F"}) {
    EXPECT_TRUE(Fits(grammar, fits)) << fits;
  }
  for (const char* other : {"d", "ü", "\xF0\x9F\x99\x90", "\xC3", "ab", ""}) {
    EXPECT_FALSE(Fits(grammar, other)) << other;
  }
  GrammarBuilder except;
  const Grammar others = Build(except, except.CharacterExcept({{U'a', U'c'}, {0x80, 0xffff}}));
  EXPECT_TRUE(Fits(others, "d"));
  EXPECT_TRUE(Fits(others, "\xF0\x9F\x98\x80"));
  EXPECT_FALSE(Fits(others, "b"));
  EXPECT_FALSE(Fits(others, "ä"));
  EXPECT_FALSE(Fits(others, "\x80")) << "not UTF-8";
}

TEST(GrammarBuilder, RepetitionsCount) {
  GrammarBuilder builder;
  const Expression a = builder.Literal("a");
  const Grammar grammar = Build(
      builder, builder.Sequence({builder.Repeat(a, 2, 4), builder.Literal("-"),
                                 builder.Repeat(a, 1, std::nullopt), builder.Repeat(a, 0, 0)}));
  for (const char* fits : {"aa-a", "aaaa-aaaaaa"}) EXPECT_TRUE(Fits(grammar, fits)) << fits;
  for (const char* other : {"a-a", "aaaaa-a", "aa-", "aa"})
    EXPECT_FALSE(Fits(grammar, other)) << other;
}

TEST(GrammarBuilder, ARepetitionOfNothingEnds) {
  GrammarBuilder builder;
  const Expression maybe = builder.Repeat(builder.Optional(builder.Literal("a")), 0, std::nullopt);
  const Expression nothing = builder.Repeat(builder.Empty(), 4'000'000'000, 4'000'000'001);
  const Grammar grammar = Build(builder, builder.Sequence({maybe, nothing, builder.Literal("b")}));
  EXPECT_TRUE(Fits(grammar, "b"));
  EXPECT_TRUE(Fits(grammar, "aaab"));
  EXPECT_FALSE(Fits(grammar, "a"));
}

TEST(GrammarBuilder, AMachineFollowsItsArcs) {
  GrammarBuilder builder;
  const Expression a = builder.Literal("a"), b = builder.Literal("bb");
  const Expression machine = builder.Machine(3, {{0, a, 1}, {1, b, 2}, {2, a, 1}, {1, a, 1}});
  const Grammar grammar = Build(builder, builder.Sequence({machine, builder.Literal(".")}));
  for (const char* fits : {".", "a.", "aaabba.", "abbabb."})
    EXPECT_TRUE(Fits(grammar, fits)) << fits;
  for (const char* other : {"bb.", "abbbb.", "ab.", "a"})
    EXPECT_FALSE(Fits(grammar, other)) << other;
}

TEST(GrammarBuilder, OnlyPathsToAnEndAreTaken) {
  GrammarBuilder builder;
  const Expression dead = builder.Sequence({builder.Literal("ab"), builder.Nothing()});
  const Grammar grammar = Build(builder, builder.Choice({dead, builder.Literal("ac")}));
  Matcher matcher(grammar);
  EXPECT_TRUE(matcher.Push('a'));
  EXPECT_FALSE(matcher.Push('b')) << "nothing can follow";
  EXPECT_TRUE(matcher.Push('c'));
}

TEST(GrammarBuilder, RulesNeedAString) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule endless = builder.Declare();
  builder.Define(endless, builder.Sequence({builder.Literal("a"), builder.Call(endless)}));
  const auto grammar = builder.Build(endless);
  EXPECT_EQ(grammar.status(), absl::InvalidArgumentError("no text fits the grammar"));
}

TEST(GrammarBuilder, NamesItsLimits) {
  GrammarBuilder builder;
  const Expression many =
      builder.Repeat(builder.Repeat(builder.Literal("ab"), 1000, 1000), 1000, 1000);
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, many);
  EXPECT_EQ(
      builder.Build(start).status().message(),
      "the grammar is too large: it needs more than 400000 states (counted repetitions of long "
      "parts take the most)");
  // (a|b)*a(a|b){20} has 2^20 nodes.
  const Expression letter = builder.Character({{U'a', U'b'}});
  builder.Define(start, builder.Sequence({builder.Repeat(letter, 0, std::nullopt),
                                          builder.Literal("a"), builder.Repeat(letter, 20, 20)}));
  EXPECT_EQ(
      builder.Build(start).status().message(),
      "the grammar is too large: it needs more than 100000 nodes (counted repetitions of long "
      "parts take the most)");
}

TEST(GrammarBuilder, DeepExpressionsAreRefused) {
  GrammarBuilder builder;
  Expression nested = builder.Literal("a");
  for (int i = 0; i < 100'000; ++i) nested = builder.Sequence({builder.Literal("("), nested});
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, nested);
  EXPECT_FALSE(builder.Build(start).ok());
}

// A million alternatives and many optional parts take time in proportion to their number.
TEST(GrammarBuilder, LargeGrammarsAreBuilt) {
  GrammarBuilder builder;
  std::vector<Expression> words;
  for (int i = 0; i < 20'000; ++i) words.push_back(builder.Literal("word-" + std::to_string(i)));
  const Grammar grammar = Build(builder, builder.Choice(words));
  EXPECT_TRUE(Fits(grammar, "word-19999"));
  EXPECT_FALSE(Fits(grammar, "word-20000"));
}

}  // namespace
}  // namespace longstream
