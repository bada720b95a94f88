// Each step of a normalizer, and several steps in sequence.
#include "service/tokenizer/text/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace longstream {
namespace {

using testing::HasSubstr;
using NormalizerKind = NormalizerStep::Kind;

NormalizerStep NormalizerOf(NormalizerKind kind) {
  NormalizerStep step;
  step.kind = kind;
  return step;
}

NormalizerStep Prepend(const std::string& text) {
  NormalizerStep step = NormalizerOf(NormalizerKind::kPrepend);
  step.text = text;
  return step;
}

NormalizerStep Replace(const std::string& pattern, bool literal, const std::string& text) {
  NormalizerStep step = NormalizerOf(NormalizerKind::kReplace);
  step.pattern = {pattern, literal};
  step.text = text;
  return step;
}

NormalizerStep Strip(bool left, bool right) {
  NormalizerStep step = NormalizerOf(NormalizerKind::kStrip);
  step.left = left;
  step.right = right;
  return step;
}

std::string Normalized(const std::vector<NormalizerStep>& steps, std::string_view text,
                       TextPlace place = TextPlace::kSequenceBegin,
                       const std::vector<std::string>& symbols = {}) {
  TokenizerSpec spec;
  spec.normalizer = steps;
  spec.symbols = symbols;
  const auto normalizer = Normalizer::Create(spec);
  EXPECT_TRUE(normalizer.ok()) << normalizer.status();
  std::string buffer;
  const auto normalized = normalizer->Run(text, place, &buffer);
  EXPECT_TRUE(normalized.ok()) << normalized.status();
  return std::string(*normalized);
}

TEST(Normalizer, LeavesATextWithoutSteps) { EXPECT_EQ(Normalized({}, " a "), " a "); }

TEST(Normalizer, PrependsToWhatIsNotEmpty) {
  EXPECT_EQ(Normalized({Prepend("_")}, "a"), "_a");
  EXPECT_EQ(Normalized({Prepend("_")}, ""), "");
  EXPECT_EQ(Normalized({Strip(true, true), Prepend("_")}, "  "), "")
      << "the text is empty after the first step";
  EXPECT_EQ(Normalized({Prepend("_")}, "a", TextPlace::kNewPiece), "_a");
  EXPECT_EQ(Normalized({Prepend("_")}, "a", TextPlace::kContinues), "a");
  NormalizerStep first = Prepend("_");
  first.scheme = PrependScheme::kFirst;
  EXPECT_EQ(Normalized({first}, "a"), "_a");
  EXPECT_EQ(Normalized({first}, "a", TextPlace::kNewPiece), "a");
  first.to_emptied = true;
  EXPECT_EQ(Normalized({Strip(true, true), first}, "  "), "_");
  EXPECT_EQ(Normalized({first}, ""), "");
  EXPECT_EQ(Normalized({Strip(true, true), first}, "  ", TextPlace::kContinues), "");
}

TEST(Normalizer, Replaces) {
  EXPECT_EQ(Normalized({Replace(" ", true, "\u2581")}, " a  b"), "\u2581a\u2581\u2581b");
  EXPECT_EQ(Normalized({Replace("aa", true, "a")}, "aaaaa"), "aaa")
      << "should replace from the left, each match once";
  EXPECT_EQ(Normalized({Replace(" {2,}", false, "_")}, "a   b c  "), "a_b c_");
  EXPECT_EQ(Normalized({Replace("x+", false, "")}, "xaxxb"), "ab");
}

TEST(Normalizer, StripsWhiteSpaceOfUnicode) {
  EXPECT_EQ(Normalized({Strip(true, false)}, "\u3000 a "), "a ");
  EXPECT_EQ(Normalized({Strip(false, true)}, " a\u00a0\n"), " a");
  EXPECT_EQ(Normalized({Strip(true, true)}, "\u200ba "), "\u200ba") << "U+200B is no white space";
}

TEST(Normalizer, AppliesStepsInOrder) {
  EXPECT_EQ(Normalized({NormalizerOf(NormalizerKind::kNfc), Prepend(" "), Replace(" ", true, "_")},
                       "e\u0301 x"),
            "_\u00e9_x");
  EXPECT_EQ(Normalized({NormalizerOf(NormalizerKind::kNfkc), Replace("fi", true, "x"),
                        NormalizerOf(NormalizerKind::kNfd)},
                       "\ufb01\u00e9"),
            "xe\u0301");
  EXPECT_EQ(Normalized({NormalizerOf(NormalizerKind::kNfkd)}, "\u1e9b\u0323"), "s\u0323\u0307");
}

TEST(Normalizer, CollapsesSpaces) {
  EXPECT_EQ(Normalized({NormalizerOf(NormalizerKind::kCollapseSpaces)}, "  a   b \t c  "),
            "a b \t c");
  EXPECT_EQ(Normalized({NormalizerOf(NormalizerKind::kCollapseSpaces)}, "   "), "");
  EXPECT_EQ(
      Normalized({NormalizerOf(NormalizerKind::kCollapseSpaces)}, "  a ", TextPlace::kContinues),
      " a");
  EXPECT_EQ(Normalized({NormalizerOf(NormalizerKind::kCollapseSpaces)}, "a \u2581 "), "a")
      << "should remove a mark at the end too";
}

TEST(Normalizer, LeavesSymbolsAsTheyAre) {
  EXPECT_EQ(Normalized({NormalizerOf(NormalizerKind::kSentencePiece)}, "a<x>b",
                       TextPlace::kSequenceBegin, {"<x>"}),
            "a<x>b");
}

// The same as SentencePiece with remove_extra_whitespaces, and without it.
TEST(Normalizer, SpacesInSymbols) {
  const std::vector<NormalizerStep> keeps = {NormalizerOf(NormalizerKind::kSentencePiece)};
  const std::vector<NormalizerStep> collapses = {NormalizerOf(NormalizerKind::kSentencePiece),
                                                 NormalizerOf(NormalizerKind::kCollapseSpaces)};
  const auto normalized = [](const std::vector<NormalizerStep>& steps, std::string_view text,
                             TextPlace place = TextPlace::kSequenceBegin) {
    return Normalized(steps, text, place, {"  ", " x  y "});
  };
  EXPECT_EQ(normalized(collapses, "a  b"), "a\u2581 b");
  EXPECT_EQ(normalized(collapses, "a   b"), "a\u2581 b") << "a space follows the symbol";
  EXPECT_EQ(normalized(collapses, "a     b"), "a\u2581 b") << "the second symbol follows a space";
  EXPECT_EQ(normalized(collapses, "  b"), "b");
  EXPECT_EQ(normalized(collapses, "  b", TextPlace::kContinues), "\u2581 b");
  EXPECT_EQ(normalized(collapses, "b  "), "b");
  EXPECT_EQ(normalized(collapses, "a x  y  b"), "a\u2581x\u2581\u2581y b");
  EXPECT_EQ(normalized(keeps, "a     b"), "a\u2581 \u2581  b");
}

TEST(Normalizer, SaysWhetherTheBeginningIsCut) {
  const auto cuts = [](const std::vector<NormalizerStep>& steps, std::string_view text) {
    TokenizerSpec spec;
    spec.normalizer = steps;
    const auto normalizer = Normalizer::Create(spec);
    EXPECT_TRUE(normalizer.ok()) << normalizer.status();
    std::string buffer;
    bool cut_begin = false;
    EXPECT_TRUE(normalizer->Run(text, TextPlace::kSequenceBegin, &buffer, &cut_begin).ok());
    return cut_begin;
  };
  EXPECT_TRUE(cuts({Strip(true, true)}, " a"));
  EXPECT_FALSE(cuts({Strip(true, true)}, "a "));
  EXPECT_FALSE(cuts({Strip(false, true)}, " a"));
  EXPECT_TRUE(cuts({Replace("x", true, "")}, "xa"));
  EXPECT_FALSE(cuts({Replace("x", true, "")}, "ax"));
  EXPECT_FALSE(cuts({Replace("x", true, "y")}, "xa"));
  EXPECT_TRUE(cuts({Replace(" +", false, "")}, "  a b"));
  EXPECT_FALSE(cuts({Replace("b+", false, "")}, "abb"));
  EXPECT_TRUE(cuts({Strip(true, true), Prepend("_")}, " a"));
  EXPECT_TRUE(cuts({Replace("x", true, " "), Strip(true, true)}, "xa"));
  EXPECT_FALSE(cuts({NormalizerOf(NormalizerKind::kNfkc), Strip(true, true)}, "\u309ba"))
      << "U+309B becomes a space and a mark";
}

TEST(Normalizer, ReportsADamagedMap) {
  TokenizerSpec spec;
  spec.normalizer = {NormalizerOf(NormalizerKind::kCharsmap)};
  spec.normalizer[0].text = "abc";
  EXPECT_THAT(Normalizer::Create(spec).status().message(),
              HasSubstr("precompiled_charsmap: expected the size of a trie"));
}

}  // namespace
}  // namespace longstream
