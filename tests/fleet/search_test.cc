// All states of small fleets (search.h). The bounds are chosen so that all of this takes seconds.
#include "tests/fleet/search.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "service/sessions/fleet/mutations.h"

namespace longstream::fleet {
namespace {

std::string Trace(const SearchResult& result) {
  std::string text;
  for (const std::string& line : result.trace) text += line + "\n";
  return text;
}

void Print(const char* name, const SearchResult& result) {
  std::printf(
      "%-28s %9llu states, %9llu steps, %8llu ends, longest path %llu\n", name,
      static_cast<unsigned long long>(result.states), static_cast<unsigned long long>(result.steps),
      static_cast<unsigned long long>(result.ends), static_cast<unsigned long long>(result.depth));
}

void ExpectNothingWrong(const char* name, const SearchBounds& bounds) {
  const SearchResult result = Search(bounds);
  Print(name, result);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.error, "") << Trace(result);
}

TEST(SearchTest, Undisturbed) {
  ExpectNothingWrong("nothing happens", {.crashes = 0, .timers = 0});
}
TEST(SearchTest, Crash) { ExpectNothingWrong("a crash", {.crashes = 1, .timers = 0}); }
TEST(SearchTest, Loss) {
  ExpectNothingWrong("a crash, a lost message", {.crashes = 1, .losses = 1, .timers = 1});
}
TEST(SearchTest, Zombie) {
  ExpectNothingWrong("a lease that lapses", {.crashes = 0, .lapses = 1, .timers = 0});
}
TEST(SearchTest, UnknownOutcome) {
  ExpectNothingWrong("an unknown outcome", {.crashes = 0, .unknowns = 1, .timers = 0});
}
TEST(SearchTest, Withdrawal) {
  ExpectNothingWrong("an unknown outcome, two requests withdrawn",
                     {.crashes = 0, .unknowns = 1, .timers = 0, .withdrawals = 2});
}
TEST(SearchTest, Cancel) {
  ExpectNothingWrong("a turn is cancelled, an unknown outcome",
                     {.crashes = 0, .unknowns = 1, .timers = 0, .withdrawals = 1, .cancels = 1});
}
TEST(SearchTest, Drain) {
  ExpectNothingWrong("a drain", {.crashes = 0, .timers = 1, .drain = true});
}

// Larger fleets, by hand: --gtest_also_run_disabled_tests.
TEST(SearchTest, DISABLED_More) {
  ExpectNothingWrong("crash and lapse", {.crashes = 1, .lapses = 1, .timers = 0});
  ExpectNothingWrong("crash and unknown outcome", {.crashes = 1, .unknowns = 1, .timers = 0});
  ExpectNothingWrong("lapse and unknown outcome",
                     {.crashes = 0, .lapses = 1, .unknowns = 1, .timers = 0});
  ExpectNothingWrong("three calls, a crash", {.calls = 3, .crashes = 1, .timers = 0});
  ExpectNothingWrong("three calls, all faults",
                     {.calls = 3, .crashes = 1, .lapses = 1, .unknowns = 1, .timers = 0});
}

struct Case {
  Mutation mutation;
  const char* name;
  SearchBounds bounds;
};

class SearchMutationTest : public testing::TestWithParam<Case> {
 protected:
  ~SearchMutationTest() override { mutation = Mutation::kNone; }
};

TEST_P(SearchMutationTest, IsFound) {
  mutation = GetParam().mutation;
  const SearchResult result = Search(GetParam().bounds);
  Print(GetParam().name, result);
  EXPECT_NE(result.error, "") << GetParam().name << " was not found";
  std::printf("  %s\n", result.error.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Some, SearchMutationTest,
    testing::Values(
        Case{Mutation::kAnswerBeforeCommit, "AnswerBeforeCommit", {.crashes = 0, .timers = 0}},
        Case{Mutation::kShowBeforeStart, "ShowBeforeStart", {.crashes = 0, .timers = 0}},
        Case{Mutation::kOwnWithoutTransfer, "OwnWithoutTransfer", {.crashes = 0, .timers = 0}},
        Case{Mutation::kUnknownIsMade, "UnknownIsMade", {.crashes = 0, .unknowns = 1, .timers = 0}},
        Case{Mutation::kClaimLiving, "ClaimLiving", {.crashes = 0, .timers = 0}},
        Case{Mutation::kNoFence, "NoFence", {.crashes = 0, .lapses = 1, .timers = 0}},
        Case{Mutation::kWaitForPeerForever,
             "WaitForPeerForever",
             {.crashes = 0, .losses = 1, .timers = 0}},
        Case{Mutation::kWaitForReceiverForever,
             "WaitForReceiverForever",
             {.crashes = 0, .losses = 1, .timers = 0}}),
    [](const testing::TestParamInfo<Case>& tested) { return tested.param.name; });

}  // namespace
}  // namespace longstream::fleet
