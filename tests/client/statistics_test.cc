// Percentiles, compared with values calculated by hand.
#include "client/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longstream::client {
namespace {

TEST(PercentileTest, InterpolatesBetweenTheClosestRanks) {
  EXPECT_DOUBLE_EQ(Percentile({30, 10, 20, 40}, 0.0), 10);
  EXPECT_DOUBLE_EQ(Percentile({30, 10, 20, 40}, 0.5), 25);
  EXPECT_DOUBLE_EQ(Percentile({30, 10, 20, 40}, 0.9), 37);
  EXPECT_DOUBLE_EQ(Percentile({30, 10, 20, 40}, 1.0), 40);
  EXPECT_DOUBLE_EQ(Percentile({7}, 0.99), 7);
}

TEST(PercentileTest, OfNothingIsNaN) { EXPECT_TRUE(std::isnan(Percentile({}, 0.5))); }

TEST(SummarizeTest, GivesTheFourFigures) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const Summary summary = Summarize(values);
  EXPECT_DOUBLE_EQ(summary.p50, 50);
  EXPECT_DOUBLE_EQ(summary.p90, 90);
  EXPECT_DOUBLE_EQ(summary.p99, 99);
  EXPECT_DOUBLE_EQ(summary.max, 100);
}

}  // namespace
}  // namespace longstream::client
