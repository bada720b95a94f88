// The order of the verdicts, and the number of prompts that would decide.
#include "client/compare/verdict.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "client/compare/not_finite.h"

namespace longstream::client {
namespace {

struct Case {
  std::string name;
  bool distance;
  size_t prompts;
  Interval equality;
  bool rejected;
  Verdict verdict;
};

TEST(DecideTest, Table) {
  const std::vector<Case> cases = {
      // A difference; δ is 0.01.
      {"inside", false, 50, {-0.004, 0.009}, false, Verdict::kEqual},
      {"not 0, but small", false, 50, {0.002, 0.009}, true, Verdict::kEqual},
      {"just inside", false, 50, {-0.01, 0.01}, false, Verdict::kEqual},
      {"too low", false, 50, {-0.011, 0.009}, false, Verdict::kTooFew},
      {"too high", false, 50, {-0.009, 0.011}, false, Verdict::kTooFew},
      {"not 0, may be small", false, 50, {0.002, 0.03}, true, Verdict::kDifferent},
      {"surely large", false, 50, {-0.04, -0.02}, true, Verdict::kDifferent},
      {"not 0 before Holm", false, 50, {0.002, 0.03}, false, Verdict::kTooFew},
      {"unbounded", false, 50, {-kInfinity, kInfinity}, false, Verdict::kTooFew},
      {"19 prompts", false, 19, {-0.001, 0.001}, false, Verdict::kTooFew},
      {"19 prompts, large", false, 19, {0.02, 0.03}, true, Verdict::kTooFew},
      {"20 prompts", false, 20, {-0.001, 0.001}, false, Verdict::kEqual},
      // A distance.
      {"below", true, 50, {0.004, 0.009}, false, Verdict::kWithin},
      {"at", true, 50, {0.004, 0.01}, false, Verdict::kWithin},
      {"around", true, 50, {0.004, 0.02}, false, Verdict::kTooFew},
      {"above before Holm", true, 50, {0.012, 0.02}, false, Verdict::kTooFew},
      {"above", true, 50, {0.012, 0.02}, true, Verdict::kOver},
      {"19 prompts, below", true, 19, {0, 0.001}, false, Verdict::kTooFew},
  };
  for (const Case& row : cases) {
    Evidence evidence{false, row.distance, 0.01,         row.prompts, 0.01,
                      0.05,  row.equality, row.rejected, 0.01};
    EXPECT_EQ(Decide(evidence).verdict, row.verdict) << row.name;
    EXPECT_EQ(Decide(evidence).more_prompts > 0, row.verdict == Verdict::kTooFew) << row.name;
    evidence.interim = true;
    EXPECT_EQ(Decide(evidence).verdict, Verdict::kInterim) << row.name;
    EXPECT_EQ(Decide(evidence).more_prompts, 0) << row.name;
  }
}

TEST(DecideTest, OnePromptCannotSayHowManyWouldDecide) {
  Evidence evidence;
  evidence.minimum_effect = 0.01;
  evidence.prompts = 1;
  evidence.deviation = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Decide(evidence).verdict, Verdict::kTooFew);
  EXPECT_EQ(Decide(evidence).more_prompts, 0);
}

Evidence Undecided(size_t prompts, double deviation) {
  return {false, false, 0.01, prompts, 0, deviation, {-1, 1}, false, 0.05};
}

TEST(PromptsNeededTest, GrowsWithTheSquareOfTheDeviation) {
  // DeviationLimit(1, 20) is 1.176. (1.645 + 1.282)^2 1.176^2 (0.05 / 0.01)^2 + 1.353 = 297.5
  EXPECT_EQ(PromptsNeeded(Undecided(20, 0.05)), 298);
  const double four_times = static_cast<double>(PromptsNeeded(Undecided(20, 0.1)));
  EXPECT_NEAR(four_times, 4 * 296.2 + 1.4, 2);
  EXPECT_EQ(Decide(Undecided(20, 0.05)).more_prompts, 278);
}

TEST(PromptsNeededTest, MoreMetricsNeedMorePrompts) {
  Evidence evidence = Undecided(20, 0.05);
  evidence.alpha = 0.05 / 9;
  EXPECT_GT(PromptsNeeded(evidence), 298);
}

TEST(PromptsNeededTest, AtLeastTwenty) {
  EXPECT_EQ(PromptsNeeded(Undecided(5, 0.0001)), 20);
  EXPECT_EQ(PromptsNeeded(Undecided(5, 0)), 20);
}

// With 400 prompts an effect of δ would have been found, and no effect shown to be small.
TEST(PromptsNeededTest, AnEffectBelowTheMinimumNeedsMore) {
  EXPECT_GT(PromptsNeeded(Undecided(400, 0.05)), 600);
  EXPECT_LT(PromptsNeeded(Undecided(400, 0.05)), 1000);
  EXPECT_EQ(PromptsNeeded(Undecided(100000, 0.05)), 125000);
}

TEST(PromptsNeededTest, DistancesNeedTheirGapToTheMinimum) {
  Evidence far = {false, true, 0.01, 50, 0.002, 0.01, {0, 0.02}, false, 0.05};
  Evidence near = far;
  near.mean = 0.009;
  EXPECT_LT(PromptsNeeded(far), 100);
  EXPECT_GT(PromptsNeeded(near), 300);
  near.mean = 0.01;  // no number would decide; the gap counts as a tenth of δ
  EXPECT_EQ(PromptsNeeded(near), 749);
}

TEST(PromptsNeededTest, IsNeverAbsurd) {
  EXPECT_EQ(PromptsNeeded(Undecided(20, 1e300)), 1000000000);
  EXPECT_EQ(PromptsNeeded(Undecided(20, kInfinity)), 1000000000);
}

TEST(VerdictTextTest, AllHaveTexts) {
  for (const Verdict verdict : {Verdict::kInterim, Verdict::kTooFew, Verdict::kEqual,
                                Verdict::kDifferent, Verdict::kWithin, Verdict::kOver}) {
    EXPECT_NE(VerdictText(verdict), "");
    EXPECT_NE(VerdictKey(verdict), "");
  }
}

}  // namespace
}  // namespace longstream::client
