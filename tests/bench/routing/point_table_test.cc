// Verdicts on choices: a table.
#include "tests/bench/routing/point_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace longstream {
namespace {

TEST(PointTableTest, Verdicts) {
  const std::vector<ArmTimes> arms = {{10, 0.1, 1000}, {5, 0.2, 500}, {8, 0.05, 100}};
  const auto factor = [&](const RouteBudgets& budgets, size_t chosen, size_t best) {
    const Verdict verdict = Judge(arms, budgets, 10, chosen);
    EXPECT_EQ(verdict.best, best);
    return verdict.factor;
  };
  // The times are 11, 7 and 8.5.
  EXPECT_DOUBLE_EQ(factor({}, 1, 1), 1.0);
  EXPECT_DOUBLE_EQ(factor({}, 0, 1), 11.0 / 7);
  RouteBudgets time;
  time.time_to_first_token = absl::Seconds(9);
  EXPECT_DOUBLE_EQ(factor(time, 1, 1), 1.0);
  EXPECT_DOUBLE_EQ(factor(time, 0, 1), 10.0 / 9) << "it exceeds the budget";
  EXPECT_DOUBLE_EQ(factor(time, 2, 1), 9.0 / 5) << "the arm before it fits";
  time.time_to_first_token = absl::Seconds(1);
  EXPECT_DOUBLE_EQ(factor(time, 1, 1), 1.0) << "no arm fits";
  EXPECT_DOUBLE_EQ(factor(time, 2, 1), 8.0 / 5);
  RouteBudgets all;
  all.time_to_first_token = absl::Seconds(20);
  all.time_per_token = absl::Milliseconds(60);
  all.session_bytes = 100;
  EXPECT_DOUBLE_EQ(factor(all, 2, 2), 1.0);
  EXPECT_DOUBLE_EQ(factor(all, 0, 2), 10.0);
}

}  // namespace
}  // namespace longstream
