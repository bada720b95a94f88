// The statistics of a pair from observations to verdicts.
#include "client/compare/metric_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/client/compare/noise_model.h"

namespace longstream::client {
namespace {

Comparison Noisy(size_t prompts, const PlantedEffects& planted = {}) {
  std::mt19937_64 random(11);
  return NoisyComparison(prompts, 1999, planted, &random);
}

const MetricResult& ResultOf(const std::vector<MetricResult>& results, Metric metric) {
  return *std::find_if(results.begin(), results.end(),
                       [&](const MetricResult& result) { return result.metric == metric; });
}

TEST(CompareMetricsTest, PlantedEffectsAreDifferentAndTheOthersAreNot) {
  const auto results = CompareMetrics(Noisy(60, {-0.1, 0}), 1);
  EXPECT_EQ(results.size(), 8);  // no bits per byte, because the tokenizers are equal
  const MetricResult& log_prob = ResultOf(results, Metric::kLogProb);
  EXPECT_EQ(log_prob.decision.verdict, Verdict::kDifferent);
  EXPECT_NEAR(log_prob.mean, -0.1, 0.015);
  EXPECT_NEAR(log_prob.other - log_prob.baseline, log_prob.mean, 1e-12);
  EXPECT_LT(log_prob.interval.high, 0);
  EXPECT_LE(log_prob.p, 0.05);
  EXPECT_NEAR(log_prob.effect, log_prob.mean / log_prob.deviation, 1e-12);
  EXPECT_GT(ResultOf(results, Metric::kTtft).p, 0.05);
  EXPECT_EQ(ResultOf(results, Metric::kKl).decision.verdict, Verdict::kWithin);
}

TEST(CompareMetricsTest, EqualBytesAreEqual) {
  const auto results = CompareMetrics(Noisy(20), 1);
  const MetricResult& bytes = ResultOf(results, Metric::kBytes);
  EXPECT_EQ(bytes.decision.verdict, Verdict::kEqual);
  EXPECT_EQ(bytes.mean, 0);
  EXPECT_EQ(bytes.interval.low, 0);
  EXPECT_EQ(bytes.interval.high, 0);
  EXPECT_TRUE(std::isnan(bytes.effect));
}

TEST(CompareMetricsTest, DistancesAreNotNegative) {
  Comparison comparison = Noisy(20);
  for (PromptRun& prompt : comparison.prompts) {
    for (PairToken& token : prompt.pairs[0]) token = {0, true, 0};
  }
  comparison.prompts[0].pairs[0][0] = {3, false, 0};
  const auto results = CompareMetrics(comparison, 1);
  EXPECT_EQ(ResultOf(results, Metric::kKl).interval.low, 0);
  EXPECT_EQ(ResultOf(results, Metric::kDisagreement).equality.low, 0);
  EXPECT_LE(ResultOf(results, Metric::kDisagreement).interval.high, 1);
}

TEST(CompareMetricsTest, IntervalsAgreeWithVerdicts) {
  for (const double planted : {0.0, -0.01, -0.015, -0.02, -0.03}) {
    for (const MetricResult& result : CompareMetrics(Noisy(40, {planted, planted}), 1)) {
      const double null = Info(result.metric).distance ? result.minimum_effect : 0;
      if (Info(result.metric).distance && result.mean < null) continue;
      EXPECT_EQ(result.p <= 0.05, !result.interval.Contains(null)) << Info(result.metric).key;
    }
  }
}

TEST(CompareMetricsTest, OtherThanThePlannedPromptsAreInterim) {
  Comparison comparison = Noisy(30, {-0.1, 0});
  EXPECT_FALSE(Interim(comparison));
  comparison.plan.prompts = 31;
  EXPECT_TRUE(Interim(comparison));
  for (const MetricResult& result : CompareMetrics(comparison, 1)) {
    EXPECT_EQ(result.decision.verdict, Verdict::kInterim);
  }
  comparison.plan.prompts = 29;
  EXPECT_TRUE(Interim(comparison));
  comparison.plan.prompts = 30;
  comparison.plan.extended = true;
  EXPECT_TRUE(Interim(comparison));
}

TEST(CompareMetricsTest, LostArmsLeaveTheOtherPrompts) {
  Comparison comparison = Noisy(30);
  comparison.prompts[4].arms[1] = {};
  comparison.prompts[4].arms[1].error = "UNAVAILABLE";
  comparison.prompts[4].pairs[0].clear();
  const auto results = CompareMetrics(comparison, 1);
  for (const MetricResult& result : results) {
    EXPECT_EQ(result.prompts, 29);
    EXPECT_NE(result.decision.verdict, Verdict::kInterim);
  }
}

TEST(CompareMetricsTest, OfNoPromptsIsNothing) {
  EXPECT_TRUE(CompareMetrics(Noisy(0), 1).empty());
  for (const MetricResult& result : CompareMetrics(Noisy(1), 1)) {
    EXPECT_EQ(result.decision.verdict, Verdict::kTooFew);
    EXPECT_EQ(result.decision.more_prompts, 0);
    EXPECT_TRUE(std::isnan(result.deviation));
  }
}

}  // namespace
}  // namespace longstream::client
