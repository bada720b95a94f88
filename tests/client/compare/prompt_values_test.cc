// The values of one prompt, worked out by hand.
#include "client/compare/prompt_values.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longstream::client {
namespace {

// Two arms, two tokens.
Comparison TwoTokens() {
  Comparison comparison;
  comparison.arms = {{"dense", "dense", "1", "t"}, {"hybrid", "hybrid", "1", "t"}};
  PromptRun prompt;
  prompt.arms.resize(2);
  prompt.arms[0] = {"",          {{-1, 0, true, "a", "a"}, {-2, 1, false, "b", "c"}},
                    0.5,         {0.1, 0.3, 0.2},
                    {100, 0, 0}, 0,
                    0,           "ab",
                    1.5};
  prompt.arms[1] = {"",
                    {{-2, 1, false, "a", "b"}, {-4, 2, false, "b", "c"}},
                    0.25,
                    {0.1, 0.1, 0.9},
                    {10, 10, 5},
                    0,
                    0,
                    "ab",
                    2};
  prompt.pairs = {{{0.25, false, -0.2}, {0.75, true, 0.1}}};
  comparison.prompts = {prompt};
  return comparison;
}

double Difference(const Comparison& comparison, Metric metric) {
  return ValueOf(comparison, comparison.prompts[0], 1, metric).difference;
}

TEST(ValueOfTest, TokensAreAveraged) {
  const Comparison comparison = TwoTokens();
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kKl), 0.5);
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kDisagreement), 0.5);
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kDeltaP), -0.05);
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kLogProb), -1.5);
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kTop1), -0.5);
  const PromptValue value = ValueOf(comparison, comparison.prompts[0], 1, Metric::kLogProb);
  EXPECT_DOUBLE_EQ(value.baseline, -1.5);
  EXPECT_DOUBLE_EQ(value.other, -3);
}

TEST(ValueOfTest, TimesAndBytesAreLogarithmsOfRatios) {
  const Comparison comparison = TwoTokens();
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kTtft), std::log(0.5));
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kItl), std::log(0.5));  // medians 0.2 and 0.1
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kBytes), std::log(0.25));
}

TEST(ValueOfTest, OnlyTokensThatBothArmsReadCount) {
  Comparison comparison = TwoTokens();
  comparison.prompts[0].pairs[0].resize(1);
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kKl), 0.25);
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kLogProb), -1);
  comparison.prompts[0].pairs[0].clear();
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kKl)));
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kTtft), std::log(0.5));
}

TEST(ValueOfTest, OtherTokenizersHaveBitsPerByteOnly) {
  Comparison comparison = TwoTokens();
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kBitsPerByte)));
  comparison.arms[1].tokenizer = "u";
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kBitsPerByte), 0.5);
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kKl)));
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kLogProb)));
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kBytes), std::log(0.25));
}

TEST(ValueOfTest, FreeRunningArmsScoreTheirOwnTokens) {
  Comparison comparison = TwoTokens();
  comparison.teacher_forced = false;
  EXPECT_DOUBLE_EQ(Difference(comparison, Metric::kKl), 0.5);
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kLogProb)));
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kTop1)));
}

TEST(ValueOfTest, WhatIsMissingHasNoValue) {
  Comparison comparison = TwoTokens();
  comparison.prompts[0].arms[1].itl_seconds.clear();
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kItl)));
  comparison.prompts[0].arms[0].ttft_seconds = 0;
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kTtft)));
  comparison.prompts[0].arms[0].tokens.clear();
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kLogProb)));
  comparison.prompts[0].pairs[0][0].kl = INFINITY;
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kKl)));
  comparison = TwoTokens();
  comparison.prompts[0].arms[1].error = "lost";
  for (const Metric metric : kAllMetrics) {
    EXPECT_TRUE(std::isnan(Difference(comparison, metric)));
  }
  comparison.prompts[0].arms.resize(1);
  EXPECT_TRUE(std::isnan(Difference(comparison, Metric::kBytes)));
}

}  // namespace
}  // namespace longstream::client
