// Sums and differences of a cache budget's bytes.
#include "service/engine/policy/admission_budget.h"

#include <gtest/gtest.h>

#include <limits>

namespace longstream {
namespace {

TEST(AdmissionBudget, WhatComesIsAddedToWhatIsFree) {
  const AdmissionBudget budget{.total = 100, .free = 10, .coming = 20, .most_coming = 60};
  EXPECT_TRUE(budget.IsComing(30));
  EXPECT_FALSE(budget.IsComing(31));
  EXPECT_TRUE(budget.CanCome(70));
  EXPECT_FALSE(budget.CanCome(71));
}

TEST(AdmissionBudget, NoBudgetIsTooLarge) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const AdmissionBudget budget{.total = kMost, .free = kMost - 5, .coming = 9, .most_coming = 9};
  EXPECT_TRUE(budget.IsComing(kMost));
  EXPECT_TRUE(budget.CanCome(kMost));
}

TEST(AdmissionBudget, ARefusalNamesAllItRestsOn) {
  const AdmissionBudget budget{.total = 100, .free = 10, .coming = 20, .most_coming = 60};
  EXPECT_EQ(
      budget.Refusal(80),
      "80 more bytes are needed; the budget is 100 bytes, of which 10 are free; running turns "
      "give back 60 at most, and sessions keep 30");
}

}  // namespace
}  // namespace longstream
