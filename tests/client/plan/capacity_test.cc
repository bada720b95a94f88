// Replicas for a load, compared with values calculated by hand.
#include "client/plan/capacity.h"

#include <gtest/gtest.h>

namespace longstream::client {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

TurnCosts Costs() {
  return {.prompt_token = 0.001,
          .prompt_token_per_1000 = 0.0001,
          .generated_token = 0.01,
          .generated_token_per_1000 = 0.001,
          .bytes_per_token = 1024,
          .bytes_fixed = 1024.0 * 1024};
}

Load TenThousandTokens() {
  return {.sessions = 1000,
          .turns_per_minute = 100,
          .session_tokens = 10000,
          .prompt_tokens = 1000,
          .generated_tokens = 100};
}

TEST(CapacityTest, CountsTheTokensBehindEachOther) {
  const Capacity capacity = CapacityFor(Costs(), TenThousandTokens(), {kGib, 1});
  // 1000 tokens at 1 ms, and 8900 + 8901 + ... + 9899 tokens before them at 0.1 us.
  EXPECT_NEAR(capacity.first_token_seconds, 1 + 9399500 * 1e-7, 1e-9);
  // 100 tokens at 10 ms, and 9900 + ... + 9999 before them at 1 us.
  EXPECT_NEAR(capacity.turn_seconds, 1.93995 + 1 + 994950 * 1e-6, 1e-9);
  EXPECT_NEAR(capacity.turns_per_minute, 60 / 3.9349, 1e-9);
}

TEST(CapacityTest, MemoryDecidesIfSessionsAreMany) {
  const Capacity capacity = CapacityFor(Costs(), TenThousandTokens(), {kGib, 1});
  EXPECT_DOUBLE_EQ(capacity.session_bytes, 1024 * 1024 + 10000 * 1024);
  EXPECT_NEAR(capacity.sessions_per_gib, 95.1176, 1e-3);
  EXPECT_EQ(capacity.sessions_per_replica, 95);
  EXPECT_EQ(capacity.for_sessions, 11);
  EXPECT_EQ(capacity.for_turns, 7);  // 100 / 15.2
  EXPECT_EQ(capacity.replicas, 12);
}

TEST(CapacityTest, TurnsDecideIfSessionsAreFew) {
  Load load = TenThousandTokens();
  load.sessions = 95;
  const Capacity capacity = CapacityFor(Costs(), load, {kGib, 0.5});
  EXPECT_EQ(capacity.for_sessions, 1);
  EXPECT_EQ(capacity.for_turns, 14);  // a replica computes half of the time
  EXPECT_EQ(capacity.replicas, 15);
}

TEST(CapacityTest, NoLoadNeedsOneReplicaAndOneThatMayLeave) {
  EXPECT_EQ(CapacityFor(Costs(), {.session_tokens = 100}, {kGib, 1}).replicas, 2);
}

// The most that the options of the command allow.
TEST(CapacityTest, ReplicasAreCountedUpToALimit) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 31;
  const Load load = {.sessions = uint64_t{1} << 40,
                     .turns_per_minute = 1e12,
                     .session_tokens = kMostTokens,
                     .prompt_tokens = 0,
                     .generated_tokens = kMostTokens};
  const Capacity capacity = CapacityFor(Costs(), load, {1e9 * kGib, 0.01});
  EXPECT_EQ(capacity.for_turns, 1'000'000'000'000'000u);
  EXPECT_EQ(capacity.replicas, 1'000'000'000'000'001u);
}

TEST(CapacityTest, NoReplicaIsLargeEnoughForTheSession) {
  const Capacity capacity = CapacityFor(Costs(), TenThousandTokens(), {1024.0 * 1024, 1});
  EXPECT_EQ(capacity.sessions_per_replica, 0);
  EXPECT_EQ(capacity.replicas, 0);
}

}  // namespace
}  // namespace longstream::client
