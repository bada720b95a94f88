// Splitting into words: every behaviour, and steps after steps.
#include "service/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace longstream {
namespace {

using Words = std::vector<std::string>;

Words Split(const TokenizerSpec& spec, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::Create(spec);
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
  Words words;
  const absl::Status status =
      pre_tokenizer->Split(text, [&](std::string_view word) { words.emplace_back(word); });
  EXPECT_TRUE(status.ok()) << status;
  return words;
}

Words SplitBy(SplitBehavior behavior, bool invert = false) {
  TokenizerSpec spec;
  spec.splits = {{"-", true, behavior, invert}};
  return Split(spec, "The-final--countdown");
}

// The examples of the `tokenizers` documentation.
TEST(PreTokenizer, TreatsMatchesAsAsked) {
  EXPECT_EQ(SplitBy(SplitBehavior::kRemoved), (Words{"The", "final", "countdown"}));
  EXPECT_EQ(SplitBy(SplitBehavior::kIsolated), (Words{"The", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(SplitBy(SplitBehavior::kMergedWithPrevious),
            (Words{"The-", "final-", "-", "countdown"}));
  EXPECT_EQ(SplitBy(SplitBehavior::kMergedWithNext), (Words{"The", "-final", "-", "-countdown"}));
  EXPECT_EQ(SplitBy(SplitBehavior::kContiguous), (Words{"The", "-", "final", "--", "countdown"}));
}

TEST(PreTokenizer, Inverts) {
  EXPECT_EQ(SplitBy(SplitBehavior::kRemoved, true), (Words{"-", "-", "-"}));
  EXPECT_EQ(SplitBy(SplitBehavior::kMergedWithNext, true),
            (Words{"The-", "final-", "-", "countdown"}));
}

TEST(PreTokenizer, SplitsLikeGpt2) {
  TokenizerSpec spec;
  spec.gpt2_split = true;
  EXPECT_EQ(Split(spec, "I'll see  you,\n at 10pm "),
            (Words{"I", "'ll", " see", " ", " you", ",", "\n", " at", " 10", "pm", " "}));
  EXPECT_EQ(Split(spec, ""), Words());
}

TEST(PreTokenizer, PutsASpaceBeforeEachPieceThatHasNone) {
  TokenizerSpec spec;
  spec.add_prefix_space = true;
  EXPECT_EQ(Split(spec, "one two"), Words{" one two"});
  EXPECT_EQ(Split(spec, " one"), Words{" one"});
  spec.splits = {{"-", true, SplitBehavior::kRemoved, false}};
  spec.gpt2_split = true;
  EXPECT_EQ(Split(spec, "a-b c- d"), (Words{" a", " b", " c", " d"}));
}

TEST(PreTokenizer, AppliesStepsOneAfterAnother) {
  TokenizerSpec spec;
  spec.splits = {{"\\p{N}", false, SplitBehavior::kIsolated, false},
                 {"_", true, SplitBehavior::kMergedWithPrevious, false}};
  EXPECT_EQ(Split(spec, "a_b12_c"), (Words{"a_", "b", "1", "2", "_", "c"}));
}

TEST(PreTokenizer, LeavesATextWithoutAnyStepWhole) {
  EXPECT_EQ(Split(TokenizerSpec(), "one two"), Words{"one two"});
}

TEST(PreTokenizer, ReportsATextThatCannotBeSplit) {
  TokenizerSpec spec;
  spec.splits = {{"(?:a+)+[bc]", false, SplitBehavior::kIsolated, false}};
  const auto pre_tokenizer = PreTokenizer::Create(spec);
  ASSERT_TRUE(pre_tokenizer.ok());
  const absl::Status status =
      pre_tokenizer->Split(std::string(100, 'a'), [](std::string_view) { FAIL() << "no word"; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(PreTokenizer, RefusesAPatternThatIsNotSupported) {
  TokenizerSpec spec;
  spec.splits = {{"^a", false, SplitBehavior::kIsolated, false}};
  EXPECT_EQ(PreTokenizer::Create(spec).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace longstream
