// The bootstrap, compared with SciPy's, and Holm's correction.
#include "client/compare/paired_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include "client/compare/not_finite.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using testing::ElementsAre;

// tools/golden/compare/compare_statistics.py writes it.
nlohmann::json Golden() {
  std::ifstream file(LONGSTREAM_SOURCE_DIR "/tests/golden/compare/statistics.json");
  return nlohmann::json::parse(file);
}

TEST(StudentisedBootstrapTest, AgreesWithSciPy) {
  const nlohmann::json golden = Golden();
  ASSERT_EQ(golden["samples"].size(), 6);
  for (const nlohmann::json& sample : golden["samples"]) {
    SCOPED_TRACE(sample["name"]);
    const auto values = sample["values"].get<std::vector<double>>();
    const StudentisedBootstrap bootstrap(values, 7, 100000);
    const double error = sample["standard_error"];
    EXPECT_EQ(bootstrap.count(), values.size());
    EXPECT_NEAR(bootstrap.deviation(), sample["deviation"], 1e-12);
    EXPECT_NEAR(bootstrap.standard_error(), error, 1e-12);
    // Both draw at random. These are about four standard errors of the quantiles of t*; the tail of
    // the skewed samples is long.
    const double bounds[] = {0.06, 0.1, 0.25};
    for (size_t i = 0; i < golden["alphas"].size(); ++i) {
      const Interval interval = bootstrap.Confidence(golden["alphas"][i]);
      EXPECT_NEAR(interval.low, sample["intervals"][i][0], bounds[i] * error) << i;
      EXPECT_NEAR(interval.high, sample["intervals"][i][1], bounds[i] * error) << i;
    }
    EXPECT_NEAR(bootstrap.PValue(0), sample["p"], 0.006);
  }
}

// With two values there are four equally likely resamples; two of them have no spread.
TEST(StudentisedBootstrapTest, OfTwoValuesIsWorkedOutByHand) {
  const std::vector<double> values = {1, 3};
  const StudentisedBootstrap bootstrap(values, 1, 9999);
  EXPECT_DOUBLE_EQ(bootstrap.mean(), 2);
  EXPECT_DOUBLE_EQ(bootstrap.deviation(), std::sqrt(2));
  EXPECT_DOUBLE_EQ(bootstrap.standard_error(), 1);
  EXPECT_DOUBLE_EQ(bootstrap.standardised_effect(), std::sqrt(2));
  // t* is -infinity, 0, 0, infinity.
  EXPECT_EQ(bootstrap.Confidence(0.2).low, -kInfinity);
  EXPECT_EQ(bootstrap.Confidence(0.2).high, kInfinity);
  EXPECT_DOUBLE_EQ(bootstrap.Confidence(0.8).low, 2);
  EXPECT_DOUBLE_EQ(bootstrap.Confidence(0.8).high, 2);
  EXPECT_NEAR(bootstrap.PValue(0), 0.5, 0.03);
  EXPECT_EQ(bootstrap.PValue(2), 1);
}

TEST(StudentisedBootstrapTest, TheSeedDecides) {
  std::vector<double> values;
  for (int i = 0; i < 31; ++i) values.push_back(std::sin(i));
  const auto low = [&](uint64_t seed) {
    return StudentisedBootstrap(values, seed, 999).Confidence(0.05).low;
  };
  EXPECT_EQ(low(1), low(1));
  EXPECT_NE(low(1), low(2));
}

// A verdict must not depend on whether one looks at the interval or at the p-value.
TEST(StudentisedBootstrapTest, PValuesAndIntervalsAgree) {
  std::vector<double> values;
  for (int i = 0; i < 25; ++i) values.push_back(std::exp(std::sin(3 * i)));
  const StudentisedBootstrap bootstrap(values, 5, 999);
  int excluded = 0;
  for (int step = 0; step <= 100; ++step) {
    const double hypothesis = bootstrap.mean() + (step - 50) * 0.1 * bootstrap.standard_error();
    for (const double alpha : {0.002, 0.01, 0.05, 0.1, 0.5}) {
      const bool excludes = !bootstrap.Confidence(alpha).Contains(hypothesis);
      EXPECT_EQ(bootstrap.PValue(hypothesis) <= alpha * (1 + 1e-12), excludes)
          << hypothesis << " " << alpha;
      excluded += excludes;
    }
  }
  EXPECT_GT(excluded, 100);
}

TEST(StudentisedBootstrapTest, EqualValuesHaveAPointAsInterval) {
  for (const double value : {0.0, 0.1, -1e9}) {
    const std::vector<double> values(50, value);
    const StudentisedBootstrap bootstrap(values, 1, 999);
    EXPECT_EQ(bootstrap.deviation(), 0);
    EXPECT_EQ(bootstrap.Confidence(0.05).low, bootstrap.mean());
    EXPECT_EQ(bootstrap.Confidence(0.05).high, bootstrap.mean());
    EXPECT_EQ(bootstrap.PValue(bootstrap.mean()), 1);
    EXPECT_EQ(bootstrap.PValue(bootstrap.mean() + 1), 2.0 / 1000);
  }
  const std::vector<double> zeros(50, 0.0);
  EXPECT_TRUE(std::isnan(StudentisedBootstrap(zeros, 1, 999).standardised_effect()));
}

TEST(StudentisedBootstrapTest, FewValuesSayNothing) {
  const std::vector<double> one = {4};
  const StudentisedBootstrap single(one, 1, 999);
  EXPECT_EQ(single.mean(), 4);
  EXPECT_TRUE(std::isnan(single.deviation()));
  EXPECT_EQ(single.PValue(0), 1);
  EXPECT_EQ(single.Confidence(0.05).low, -kInfinity);
  EXPECT_EQ(single.Confidence(0.05).high, kInfinity);
  const StudentisedBootstrap none({}, 1, 999);
  EXPECT_TRUE(std::isnan(none.mean()));
  EXPECT_EQ(none.PValue(0), 1);
}

TEST(StudentisedBootstrapTest, TooFewResamplesGiveNoInterval) {
  const std::vector<double> values = {1, 2, 3, 4, 5};
  EXPECT_EQ(StudentisedBootstrap(values, 1, 99).Confidence(0.01).low, -kInfinity);
  EXPECT_GT(StudentisedBootstrap(values, 1, 9999).Confidence(0.5).low, -kInfinity);
}

// Most prompts agree in every token. Then many resamples have no spread, and the bound is honest:
// it may be unbounded, never too short.
TEST(StudentisedBootstrapTest, RareDifferencesHaveAWideInterval) {
  std::vector<double> values(20, 0.0);
  values[3] = 0.5;
  const Interval interval = StudentisedBootstrap(values, 1, 9999).Confidence(0.1);
  EXPECT_LE(interval.low, 0);
  EXPECT_GT(interval.high, 0.1);
}

TEST(HolmTest, AgreesWithPairedEval) {
  const nlohmann::json golden = Golden();
  ASSERT_EQ(golden["holm"].size(), 4);
  for (const nlohmann::json& row : golden["holm"]) {
    const std::vector<HolmDecision> decisions = Holm(row["p"].get<std::vector<double>>(), 0.05);
    ASSERT_EQ(decisions.size(), row["adjusted"].size());
    for (size_t i = 0; i < decisions.size(); ++i) {
      EXPECT_NEAR(decisions[i].p, row["adjusted"][i], 1e-12);
      EXPECT_EQ(decisions[i].rejected, decisions[i].p <= 0.05);
    }
  }
}

TEST(HolmTest, StepsDownUntilAHypothesisStands) {
  const auto alphas = [](const std::vector<double>& p_values) {
    std::vector<double> result;
    for (const HolmDecision& decision : Holm(p_values, 0.06)) result.push_back(decision.alpha);
    return result;
  };
  const auto rejected = [](const std::vector<double>& p_values) {
    std::vector<bool> result;
    for (const HolmDecision& decision : Holm(p_values, 0.06)) result.push_back(decision.rejected);
    return result;
  };
  EXPECT_THAT(rejected({0.05, 0.001, 0.03}), ElementsAre(true, true, true));
  EXPECT_THAT(alphas({0.05, 0.001, 0.03}), ElementsAre(0.06, 0.02, 0.03));
  // The second hypothesis stands, so the third does too, although 0.05 is below 0.06.
  EXPECT_THAT(rejected({0.05, 0.001, 0.04}), ElementsAre(false, true, false));
  EXPECT_THAT(alphas({0.05, 0.001, 0.04}), ElementsAre(0.03, 0.02, 0.03));
  EXPECT_THAT(rejected({0.03, 0.03}), ElementsAre(true, true));
  EXPECT_THAT(rejected({0.5}), ElementsAre(false));
  EXPECT_TRUE(Holm({}, 0.05).empty());
}

TEST(SampleSizeTest, AgreesWithSciPy) {
  const nlohmann::json golden = Golden();
  for (const nlohmann::json& row : golden["normal_quantiles"]) {
    EXPECT_NEAR(NormalQuantile(row[0]), row[1], 1e-9) << row;
  }
  for (const nlohmann::json& row : golden["deviation_limits"]) {
    EXPECT_NEAR(DeviationLimit(3, row[0]), 3 * row[1].get<double>(), 0.02) << row;
  }
  for (const nlohmann::json& row : golden["prompts_to_find"]) {
    const double exact = row[3];
    EXPECT_NEAR(PromptsToFind(row[0], 1, row[1], row[2]), exact, 1.5) << row;
  }
}

}  // namespace
}  // namespace longstream::client
