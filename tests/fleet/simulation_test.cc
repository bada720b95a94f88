// Some seconds of the simulation (simulation.h), and the proof that it finds errors.
#include "tests/fleet/simulation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "service/sessions/fleet/mutations.h"

namespace longstream::fleet {
namespace {

TEST(SimulationTest, SeedsHaveNoErrors) {
  SimulationCounts counts;
  for (uint64_t seed = 1; seed <= 10'000; ++seed) {
    const SimulationResult result = Simulate({.seed = seed});
    ASSERT_EQ(result.error, "") << "replay: ownership_simulation --seed " << seed;
    counts.Add(result.counts);
  }
  std::printf("%s\n", Describe(counts).c_str());
  // Each kind of thing has happened.
  EXPECT_GT(counts.claims, 0u);
  EXPECT_GT(counts.transfers, 0u);
  EXPECT_GT(counts.fenced, 0u);
  EXPECT_GT(counts.crashes, 0u);
  EXPECT_GT(counts.pauses, 0u);
  EXPECT_GT(counts.drains, 0u);
  EXPECT_GT(counts.restarts, 0u);
  EXPECT_GT(counts.late, 0u);
  EXPECT_GT(counts.lost, 0u);
  EXPECT_GT(counts.repeated, 0u);
  EXPECT_GT(counts.relayed, 0u);
  EXPECT_GT(counts.offered, 0u);
  EXPECT_GT(counts.abandoned, 0u);
  EXPECT_GT(counts.changes, 0u);
  EXPECT_GT(counts.withdrawn, 0u);
}

TEST(SimulationTest, ASeedReplays) {
  const SimulationResult first = Simulate({.seed = 7});
  const SimulationResult again = Simulate({.seed = 7});
  EXPECT_EQ(Describe(first.counts), Describe(again.counts));
  EXPECT_EQ(first.error, again.error);
  EXPECT_NE(Describe(first.counts), Describe(Simulate({.seed = 8}).counts));
}

struct Case {
  Mutation mutation;
  const char* name;
};

class MutationTest : public testing::TestWithParam<Case> {
 protected:
  ~MutationTest() override { mutation = Mutation::kNone; }
};

// The error is found, and its seed finds it again.
TEST_P(MutationTest, IsFound) {
  mutation = GetParam().mutation;
  for (uint64_t seed = 1; seed <= 30'000; ++seed) {
    const SimulationResult result = Simulate({.seed = seed});
    if (result.error.empty()) continue;
    std::printf("%s: found by seed %llu: %s\n", GetParam().name,
                static_cast<unsigned long long>(seed), result.error.c_str());
    EXPECT_EQ(Simulate({.seed = seed}).error, result.error);
    return;
  }
  FAIL() << GetParam().name << " was not found";
}

INSTANTIATE_TEST_SUITE_P(
    All, MutationTest,
    testing::Values(Case{Mutation::kAnswerBeforeCommit, "AnswerBeforeCommit"},
                    Case{Mutation::kUnknownIsMade, "UnknownIsMade"},
                    Case{Mutation::kShowBeforeStart, "ShowBeforeStart"},
                    Case{Mutation::kKeepCopyWhenFenced, "KeepCopyWhenFenced"},
                    Case{Mutation::kTrustOldCopy, "TrustOldCopy"},
                    Case{Mutation::kOwnWithoutTransfer, "OwnWithoutTransfer"},
                    Case{Mutation::kReplayStarted, "ReplayStarted"},
                    Case{Mutation::kDisownUnknown, "DisownUnknown"},
                    Case{Mutation::kWaitForPeerForever, "WaitForPeerForever"},
                    Case{Mutation::kWaitForReceiverForever, "WaitForReceiverForever"},
                    Case{Mutation::kOnlyReadAfterGiving, "OnlyReadAfterGiving"},
                    Case{Mutation::kNoCheckAfterLapse, "NoCheckAfterLapse"},
                    Case{Mutation::kFenceAnew, "FenceAnew"},
                    Case{Mutation::kClaimLiving, "ClaimLiving"},
                    Case{Mutation::kRunAbandoned, "RunAbandoned"},
                    Case{Mutation::kForgetUndecided, "ForgetUndecided"},
                    Case{Mutation::kForgetWithdrawn, "ForgetWithdrawn"},
                    Case{Mutation::kRunAfterGrace, "RunAfterGrace"},
                    Case{Mutation::kNoFence, "NoFence"}, Case{Mutation::kNoEpochs, "NoEpochs"},
                    Case{Mutation::kClaimAfterRestart, "ClaimAfterRestart"}),
    [](const testing::TestParamInfo<Case>& tested) { return tested.param.name; });

}  // namespace
}  // namespace longstream::fleet
