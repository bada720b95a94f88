// Tests which tokens a format allows at each place of an answer.
#include "service/engine/logits/format_guide.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/grammar/grammar_builder.h"
#include "service/grammar/mask_store.h"
#include "service/grammar/token_trie.h"

namespace longstream {
namespace {

// Removes a space from the first token of a sequence. Ids 0 and 1 are special.
class SpacedTokens : public Tokenizer {
 public:
  explicit SpacedTokens(std::vector<std::string> tokens)
      : Tokenizer({.vocab_size = static_cast<int>(tokens.size())}), tokens_(std::move(tokens)) {}

  std::string_view kind() const override { return "spaced"; }
  std::string_view TokenBytes(int32_t id) const override {
    return tokens_[static_cast<size_t>(id)];
  }
  std::string_view FirstTokenBytes(int32_t id) const override {
    const std::string_view bytes = TokenBytes(id);
    return bytes.starts_with(' ') ? bytes.substr(1) : bytes;
  }
  bool IsSpecial(int32_t id) const override { return id < 2; }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view, EncodeOptions) const override {
    return absl::UnimplementedError("only for decoding");
  }

  const std::vector<std::string> tokens_;
};

class FormatGuideTest : public ::testing::Test {
 protected:
  // Of the answers "ab" and "abab".
  std::shared_ptr<const TokenMasks> Masks() {
    GrammarBuilder builder;
    const GrammarBuilder::Rule start = builder.Declare();
    builder.Define(start, builder.Repeat(builder.Literal("ab"), 1, 2));
    return std::make_shared<const TokenMasks>(*builder.Build(start),
                                              std::make_shared<const TokenTrie>(tokens_),
                                              std::make_shared<MaskStore>(1000));
  }
  std::vector<int32_t> Allowed(FormatGuide& guide) {
    EXPECT_EQ(guide.FindAllowed(), absl::OkStatus());
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < tokens_.vocab_size(); ++id) {
      if ((guide.allowed()[0] >> id & 1) != 0) allowed.push_back(id);
    }
    return allowed;
  }

  const SpacedTokens tokens_{{"<end>", "<other>", "a", "b", "ab", " a", "ba", "", " ab", "abab"}};
};

TEST_F(FormatGuideTest, TheEndIsAllowedWhereTheFormatIsComplete) {
  FormatGuide guide(Masks(), tokens_, {0}, /*begins_text=*/false);
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{2, 4, 9}));
  EXPECT_FALSE(guide.Take(0)) << "the answer is empty";
  EXPECT_TRUE(guide.Take(2));
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{3, 6}));
  EXPECT_TRUE(guide.Take(3));
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{0, 2, 4}));
  EXPECT_TRUE(guide.Take(4));
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{0}));
  EXPECT_FALSE(guide.IsOver());
  EXPECT_TRUE(guide.Take(0));
}

TEST_F(FormatGuideTest, WithoutAStopTokenItIsOver) {
  FormatGuide guide(Masks(), tokens_, {}, /*begins_text=*/false);
  EXPECT_TRUE(guide.Take(9));
  EXPECT_EQ(Allowed(guide), std::vector<int32_t>());
  EXPECT_TRUE(guide.IsOver());
}

TEST_F(FormatGuideTest, TakesOnlyTokensOfTheFormat) {
  FormatGuide guide(Masks(), tokens_, {0}, /*begins_text=*/false);
  EXPECT_FALSE(guide.Take(1)) << "special tokens give no text";
  EXPECT_FALSE(guide.Take(7)) << "it has no bytes";
  EXPECT_FALSE(guide.Take(5));
}

TEST_F(FormatGuideTest, AStopTokenWithTextOnlyEnds) {
  FormatGuide guide(Masks(), tokens_, {4}, /*begins_text=*/false);
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{2, 9})) << "token 4 would end the answer";
  EXPECT_TRUE(guide.Take(2));
  EXPECT_TRUE(guide.Take(3));
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{2, 4}));
}

TEST_F(FormatGuideTest, TheFirstTokenLosesItsSpace) {
  FormatGuide guide(Masks(), tokens_, {0}, /*begins_text=*/true);
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{2, 4, 5, 8, 9}));
  EXPECT_TRUE(guide.Take(8));
  EXPECT_EQ(Allowed(guide), (std::vector<int32_t>{0, 2, 4}));
}

// Rules that nest in very many ways take memory with each byte, although they are not ambiguous.
TEST_F(FormatGuideTest, TheReadingsOfAnAnswerHaveALimit) {
  GrammarBuilder builder;
  std::vector<GrammarBuilder::Rule> rules;
  std::vector<GrammarBuilder::Expression> calls;
  for (int i = 0; i < 100; ++i) rules.push_back(builder.Declare());
  for (const GrammarBuilder::Rule rule : rules) calls.push_back(builder.Call(rule));
  const GrammarBuilder::Expression any = builder.Choice(calls);
  for (size_t i = 0; i < rules.size(); ++i) {
    builder.Define(
        rules[i],
        builder.Choice({builder.Sequence({builder.Literal("a"), any, builder.Literal("b")}),
                        builder.Literal("ba")}));
  }
  FormatGuide guide(std::make_shared<const TokenMasks>(*builder.Build(rules[0]),
                                                       std::make_shared<const TokenTrie>(tokens_),
                                                       std::make_shared<MaskStore>(1000)),
                    tokens_, {0}, /*begins_text=*/false);
  int taken = 0;
  while (taken < 100'000 && guide.Take(2)) ++taken;
  EXPECT_TRUE(guide.overflowed());
  EXPECT_GT(taken, 50);
}

TEST_F(FormatGuideTest, AVocabularyMayLackTheNextToken) {
  GrammarBuilder builder;
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, builder.Literal("ac"));
  FormatGuide guide(std::make_shared<const TokenMasks>(*builder.Build(start),
                                                       std::make_shared<const TokenTrie>(tokens_),
                                                       std::make_shared<MaskStore>(1000)),
                    tokens_, {0}, /*begins_text=*/false);
  EXPECT_TRUE(guide.Take(2));
  EXPECT_EQ(guide.FindAllowed(),
            absl::FailedPreconditionError("response_format: the format is not complete, and no "
                                          "token of the vocabulary can follow"));
}

}  // namespace
}  // namespace longstream
