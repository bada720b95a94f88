// Splits texts into words: every behaviour, and several steps in sequence.
#include "service/tokenizer/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace longstream {
namespace {

using Words = std::vector<std::string>;

using Steps = std::vector<PreTokenizerStep>;
using PreTokenizerKind = PreTokenizerStep::Kind;

PreTokenizerStep PreTokenizerOf(PreTokenizerKind kind) {
  PreTokenizerStep step;
  step.kind = kind;
  return step;
}

PreTokenizerStep SplitAt(const std::string& text, bool literal, SplitBehavior behavior,
                         bool invert = false) {
  PreTokenizerStep step;
  step.pattern = {text, literal};
  step.behavior = behavior;
  step.invert = invert;
  return step;
}

PreTokenizerStep Metaspace(PrependScheme scheme, bool split) {
  PreTokenizerStep step = PreTokenizerOf(PreTokenizerKind::kMetaspace);
  step.mark = "_";
  step.scheme = scheme;
  step.split = split;
  return step;
}

Words Split(const Steps& steps, std::string_view text,
            TextPlace place = TextPlace::kSequenceBegin) {
  const auto pre_tokenizer = PreTokenizer::Create(steps);
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
  Words words;
  const absl::Status status =
      pre_tokenizer->Split(text, place, [&](std::string_view word) { words.emplace_back(word); });
  EXPECT_TRUE(status.ok()) << status;
  return words;
}

Words SplitBy(SplitBehavior behavior, bool invert = false) {
  return Split({SplitAt("-", true, behavior, invert)}, "The-final--countdown");
}

// Examples from the documentation of `tokenizers`.
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

TEST(PreTokenizer, PutsASpaceBeforeEachPieceThatHasNone) {
  EXPECT_EQ(Split({PreTokenizerOf(PreTokenizerKind::kPrefixSpace)}, "one two"), Words{" one two"});
  EXPECT_EQ(Split({PreTokenizerOf(PreTokenizerKind::kPrefixSpace)}, " one"), Words{" one"});
  const Steps steps = {SplitAt("-", true, SplitBehavior::kRemoved),
                       PreTokenizerOf(PreTokenizerKind::kPrefixSpace),
                       PreTokenizerOf(PreTokenizerKind::kGpt2Split)};
  EXPECT_EQ(Split(steps, "a-b c- d"), (Words{" a", " b", " c", " d"}));
  EXPECT_EQ(Split(steps, "a-b", TextPlace::kContinues), (Words{"a", " b"}));
}

TEST(PreTokenizer, WritesAMarkForEachSpace) {
  const auto words = [](PrependScheme scheme, bool split, TextPlace place) {
    return Split({Metaspace(scheme, split)}, "a  b", place);
  };
  using enum PrependScheme;
  using enum TextPlace;
  EXPECT_EQ(words(kNever, false, kSequenceBegin), Words{"a__b"});
  EXPECT_EQ(words(kFirst, false, kSequenceBegin), Words{"_a__b"});
  EXPECT_EQ(words(kFirst, false, kNewPiece), Words{"a__b"});
  EXPECT_EQ(words(kFirst, false, kContinues), Words{"a__b"});
  EXPECT_EQ(words(kAlways, false, kNewPiece), Words{"_a__b"});
  EXPECT_EQ(words(kAlways, false, kContinues), Words{"a__b"});
  EXPECT_EQ(words(kAlways, true, kSequenceBegin), (Words{"_a", "_", "_b"}));
  EXPECT_EQ(Split({Metaspace(kAlways, false)}, " a"), Words{"_a"})
      << "the space at the beginning becomes the mark";
  EXPECT_EQ(Split({Metaspace(kAlways, false)}, "_a"), Words{"_a"});
}

TEST(PreTokenizer, PutsTheMarkBeforeTheFirstPieceOnly) {
  const auto words = [](PrependScheme scheme, std::string_view text) {
    return Split({SplitAt("\\s+", false, SplitBehavior::kRemoved), Metaspace(scheme, true)}, text);
  };
  EXPECT_EQ(words(PrependScheme::kFirst, "a b"), (Words{"_a", "b"}));
  EXPECT_EQ(words(PrependScheme::kFirst, " a b"), (Words{"a", "b"}))
      << "the first piece is not at the beginning of the text";
  EXPECT_EQ(words(PrependScheme::kAlways, " a b"), (Words{"_a", "_b"}));
}

TEST(PreTokenizer, AppliesStepsOneAfterAnother) {
  EXPECT_EQ(Split({SplitAt("\\p{N}", false, SplitBehavior::kIsolated),
                   SplitAt("_", true, SplitBehavior::kMergedWithPrevious)},
                  "a_b12_c"),
            (Words{"a_", "b", "1", "2", "_", "c"}));
}

TEST(PreTokenizer, LeavesATextWithoutAnyStepWhole) {
  EXPECT_EQ(Split({}, "one two"), Words{"one two"});
  EXPECT_EQ(Split({PreTokenizerOf(PreTokenizerKind::kGpt2Split)}, ""), Words());
}

TEST(PreTokenizer, ReportsATextThatCannotBeSplit) {
  const auto pre_tokenizer =
      PreTokenizer::Create({SplitAt("(?:a+)+[bc]", false, SplitBehavior::kIsolated)});
  ASSERT_TRUE(pre_tokenizer.ok());
  const absl::Status status =
      pre_tokenizer->Split(std::string(100, 'a'), TextPlace::kSequenceBegin,
                           [](std::string_view) { FAIL() << "the text should give no word"; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(PreTokenizer, RefusesAPatternThatIsNotSupported) {
  const auto pre_tokenizer = PreTokenizer::Create({SplitAt("^a", false, SplitBehavior::kIsolated)});
  EXPECT_EQ(pre_tokenizer.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace longstream
