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

TEST(AdmissionBudget, EvictableBytesAreAvailable) {
  const AdmissionBudget budget{
      .total = 100, .free = 10, .evictable = 15, .safe = 5, .coming = 20, .most_coming = 60};
  EXPECT_TRUE(budget.HasRoom(25));
  EXPECT_FALSE(budget.HasRoom(26)) << "safe bytes cannot be evicted yet";
  EXPECT_TRUE(budget.IsComing(50));
  EXPECT_FALSE(budget.IsComing(51));
  EXPECT_TRUE(budget.CanCome(90));
  EXPECT_FALSE(budget.CanCome(91));
}

TEST(AdmissionBudget, NoBudgetIsTooLarge) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const AdmissionBudget budget{.total = kMost, .free = kMost - 5, .coming = 9, .most_coming = 9};
  EXPECT_TRUE(budget.IsComing(kMost));
  EXPECT_TRUE(budget.CanCome(kMost));
}

TEST(AdmissionBudget, ARefusalNamesAllItRestsOn) {
  const AdmissionBudget budget{
      .total = 100, .free = 10, .evictable = 7, .safe = 3, .coming = 20, .most_coming = 60};
  EXPECT_EQ(budget.Refusal(95),
            "95 more bytes are needed; the budget is 100 bytes, of which 10 are free; evicting "
            "idle sessions frees 7, running turns give back 60 at most, and sessions keep 20");
}

}  // namespace
}  // namespace longstream
