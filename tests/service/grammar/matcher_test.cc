// Tests the matcher on grammars with every kind of recursion, and against a simple recogniser.
#include "service/grammar/matcher.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/grammar/grammar_builder.h"
#include "tests/service/grammar/fits.h"
#include "tests/service/grammar/random_grammar.h"

namespace longstream {
namespace {

// All texts of at most `longest` letters.
std::vector<std::string> AllTexts(size_t longest) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < longest; ++i) {
    for (const char letter : RandomGrammar::kLetters) texts.push_back(texts[i] + letter);
  }
  return texts;
}

TEST(Matcher, LeftRecursionEnds) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule sum = builder.Declare();
  builder.Define(sum, builder.Choice({builder.Sequence({builder.Call(sum), builder.Literal("+"),
                                                        builder.Literal("1")}),
                                      builder.Literal("1")}));
  const Grammar grammar = *builder.Build(sum);
  EXPECT_TRUE(Fits(grammar, "1"));
  EXPECT_TRUE(Fits(grammar, "1+1+1"));
  EXPECT_FALSE(Fits(grammar, "1+"));
  EXPECT_FALSE(Fits(grammar, "+1"));
}

TEST(Matcher, NestedRulesReturnToTheirCallers) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule list = builder.Declare();
  builder.Define(list, builder.Sequence({builder.Literal("["),
                                         builder.Repeat(builder.Call(list), 0, std::nullopt),
                                         builder.Literal("]")}));
  const Grammar grammar = *builder.Build(list);
  EXPECT_TRUE(Fits(grammar, "[[][[]]]"));
  EXPECT_FALSE(Fits(grammar, "[[]"));
  EXPECT_FALSE(Fits(grammar, "[]]"));
}

// Memory grows with the depth of nested rules, not with the length of the text.
TEST(Matcher, CommitFreesFrames) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule list = builder.Declare();
  const GrammarBuilder::Rule item = builder.Declare();
  builder.Define(item, builder.Choice({builder.Literal("1"), builder.Call(list)}));
  builder.Define(list, builder.Sequence({builder.Literal("["),
                                         builder.Repeat(builder.Call(item), 0, std::nullopt),
                                         builder.Literal("]")}));
  const Grammar grammar = *builder.Build(list);
  Matcher matcher(grammar);
  size_t bytes_then = 0;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(Reads(matcher, i == 0 ? "[" : "[1]"));
    matcher.Commit();
    EXPECT_EQ(matcher.depth(), 0u);
    if (i == 10'000) bytes_then = matcher.bytes();
  }
  EXPECT_LE(matcher.bytes(), bytes_then);
  EXPECT_TRUE(Reads(matcher, "[[[1]]]]"));
  EXPECT_TRUE(matcher.CanEnd());
}

// A rule that ends with a call of itself does not nest: neither memory nor time grow.
TEST(Matcher, TailCallsDoNotNest) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule odd = builder.Declare(), even = builder.Declare();
  builder.Define(odd, builder.Sequence({builder.Literal("a"), builder.Call(even)}));
  builder.Define(even, builder.Choice({builder.Empty(), builder.Call(odd), builder.Literal("b")}));
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, builder.Sequence({builder.Call(odd), builder.Literal(";")}));
  const Grammar grammar = *builder.Build(start);
  Matcher matcher(grammar);
  uint64_t work_then = 0;
  for (int i = 0; i < 50'000; ++i) {
    ASSERT_TRUE(matcher.Push('a'));
    if (i % 100 == 99) matcher.Commit();
    if (i == 999) work_then = matcher.work();
  }
  EXPECT_LE(matcher.work(), work_then * 50 + 1000);
  EXPECT_LT(matcher.bytes(), 200'000u);
  ASSERT_TRUE(Reads(matcher, "b;"));
  EXPECT_TRUE(matcher.CanEnd());
}

TEST(Matcher, AmbiguityHasALimit) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule both = builder.Declare();
  builder.Define(both, builder.Choice({builder.Sequence({builder.Call(both), builder.Call(both)}),
                                       builder.Literal("a")}));
  const Grammar grammar = *builder.Build(both);
  Matcher matcher(grammar);
  size_t length = 0;
  while (matcher.Push('a')) ++length;
  EXPECT_TRUE(matcher.overflowed());
  EXPECT_GT(length, 100u);
  EXPECT_EQ(matcher.depth(), length) << "the last byte changed nothing";
  EXPECT_TRUE(matcher.CanEnd());
}

TEST(Matcher, UndoGoesBack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomGrammar random(seed);
    const auto grammar = random.builder().Build(random.start());
    if (!grammar.ok()) continue;
    Matcher matcher(*grammar);
    for (const std::string& first : AllTexts(3)) {
      const bool reads = Reads(matcher, first);
      if (reads) {
        const size_t depth = matcher.depth();
        for (const std::string& other : AllTexts(3)) {
          Matcher fresh(*grammar);
          ASSERT_TRUE(Reads(fresh, first));
          EXPECT_EQ(Reads(matcher, other), Reads(fresh, other)) << seed << first << "|" << other;
          EXPECT_EQ(matcher.CanEnd(), fresh.CanEnd()) << seed << first << "|" << other;
          matcher.Undo(matcher.depth() - depth);
        }
      }
      matcher.Undo(matcher.depth());
    }
  }
}

TEST(Matcher, EqualsASimpleRecogniser) {
  const std::vector<std::string> texts = AllTexts(4);
  int built = 0, fitting = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const RandomGrammar random(seed);
    const auto grammar = random.builder().Build(random.start());
    bool any = false;
    for (const std::string& text : texts) {
      const bool expected = random.Has(text);
      any = any || expected;
      if (!grammar.ok()) continue;
      ASSERT_EQ(Fits(*grammar, text), expected) << "seed " << seed << ", text " << text;
      fitting += expected ? 1 : 0;
    }
    EXPECT_TRUE(grammar.ok() || !any) << "seed " << seed << ": " << grammar.status();
    built += grammar.ok() ? 1 : 0;
  }
  EXPECT_GT(built, 250);
  EXPECT_GT(fitting, 1000);
}

// The matcher refuses a byte at once if no text of the grammar goes on with it.
TEST(Matcher, EveryTextItReadsCanBeCompleted) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomGrammar random(seed);
    const auto grammar = random.builder().Build(random.start());
    if (!grammar.ok()) continue;
    for (const std::string& text : AllTexts(3)) {
      Matcher matcher(*grammar);
      if (!Reads(matcher, text)) {
        EXPECT_FALSE(random.HasWithPrefix(text, 5)) << "seed " << seed << ", text " << text;
        continue;
      }
      // Any way on ends: the shortest completions are found by a search in breadth.
      bool completed = false;
      for (const std::string& more : AllTexts(7)) {
        const size_t depth = matcher.depth();
        completed = completed || (Reads(matcher, more) && matcher.CanEnd());
        matcher.Undo(matcher.depth() - depth);
        if (completed) break;
      }
      EXPECT_TRUE(completed) << "seed " << seed << ", text " << text;
    }
  }
}

}  // namespace
}  // namespace longstream
