// The work that tenants get, with plain values.
#include "service/engine/policy/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "service/engine/policy/step_plan.h"

namespace longstream {
namespace {

using Indices = std::vector<uint32_t>;

TEST(WorkShares, AreDividedByTheWeights) {
  WorkShares shares({1, 4});
  EXPECT_TRUE(shares.are_shared());
  shares.Charge(0, 100);
  shares.Charge(1, 100);
  EXPECT_EQ(shares.got(0), 100.0);
  EXPECT_EQ(shares.got(1), 25.0);
  EXPECT_EQ(shares.PartOf(0, 10), 2u);
  EXPECT_EQ(shares.PartOf(1, 10), 8u);
  EXPECT_EQ(shares.PartOf(0, 3), 1u) << "at least one";
  EXPECT_EQ(shares.PartOf(0, 0), 1u);
  EXPECT_FALSE(WorkShares({}).are_shared());
  EXPECT_EQ(WorkShares({}).PartOf(0, 7), 7u);
}

TEST(WorkShares, TimeWithoutDemandGivesNoCredit) {
  WorkShares shares({1, 1, 1});
  for (int i = 0; i < 1000; ++i) {
    shares.Charge(0, 50);
    shares.Level({true, false, false});
  }
  EXPECT_EQ(shares.got(1), shares.got(0)) << "tenant 1 comes, and begins as an equal";
  shares.Charge(0, 10);
  shares.Charge(1, 30);
  shares.Level({true, true, false});
  EXPECT_EQ(shares.got(1) - shares.got(0), 20.0) << "what tenants with demand have got stays";
  EXPECT_EQ(shares.got(2), shares.got(0));
  shares.Level({false, false, false});
  EXPECT_EQ(shares.got(1), shares.got(0)) << "nobody waits, so nobody owes anything";
}

TEST(WorkOfRows, ADecodeRowIsMoreThanATokenOfAPrompt) {
  EXPECT_EQ(WorkOfRows(64, false, 0.004, 0.001), 64.0);
  EXPECT_EQ(WorkOfRows(1, true, 0.004, 0.001), 4.0);
  EXPECT_EQ(WorkOfRows(1, true, 0.0, 0.001), 1.0) << "unknown";
  EXPECT_EQ(WorkOfRows(1, true, 0.004, 0.0), 1.0) << "unknown";
  EXPECT_EQ(WorkOfRows(1, true, 1.0, 1e-9), 64.0);
  EXPECT_EQ(WorkOfRows(1, true, 1e-9, 1.0), 1.0);
}

WaitingTurn Waits(uint32_t tenant, double work = 1.0, int32_t priority = 1) {
  return {priority, tenant, work};
}

TEST(FairOrder, OneTenantKeepsItsOrder) {
  const WorkShares shares({});
  const WaitingTurn turns[] = {Waits(0, 5), Waits(0, 1), Waits(0, 3)};
  EXPECT_EQ(FairOrder(turns, shares), (Indices{0, 1, 2}));
}

TEST(FairOrder, TenantsTakeTurnsByTheWorkThatTheyAreGoingToGet) {
  const WorkShares shares({1, 1});
  const WaitingTurn turns[] = {Waits(0), Waits(0), Waits(0), Waits(1), Waits(1)};
  EXPECT_EQ(FairOrder(turns, shares), (Indices{0, 3, 1, 4, 2}));
  const WaitingTurn long_ones[] = {Waits(0, 100), Waits(0, 100), Waits(1, 40), Waits(1, 40),
                                   Waits(1, 40)};
  EXPECT_EQ(FairOrder(long_ones, shares), (Indices{0, 2, 3, 4, 1}));
}

TEST(FairOrder, WeightsAndPastWorkCount) {
  WorkShares shares({1, 2});
  const WaitingTurn turns[] = {Waits(0), Waits(0), Waits(1), Waits(1), Waits(1), Waits(1)};
  EXPECT_EQ(FairOrder(turns, shares), (Indices{0, 2, 3, 1, 4, 5}));
  shares.Charge(0, 10);
  EXPECT_EQ(FairOrder(turns, shares), (Indices{2, 3, 4, 5, 0, 1}));
}

TEST(FairOrder, PriorityGoesBeforeFairness) {
  WorkShares shares({1, 1});
  shares.Charge(0, 1000);
  const WaitingTurn turns[] = {Waits(1, 1, 0), Waits(1, 1, 1), Waits(0, 1, 1), Waits(0, 1, 2)};
  EXPECT_EQ(FairOrder(turns, shares), (Indices{3, 1, 2, 0}));
}

// The order by its definition: each time, the first turn of the tenant that has got least.
Indices OrderByDefinition(std::vector<WaitingTurn> turns, const WorkShares& shares) {
  std::vector<double> got(shares.weights().size());
  for (size_t i = 0; i < got.size(); ++i) got[i] = shares.got(i);
  std::vector<bool> taken(turns.size());
  Indices order;
  while (order.size() < turns.size()) {
    std::optional<uint32_t> best;
    for (uint32_t i = 0; i < turns.size(); ++i) {
      if (taken[i]) continue;
      const auto rank = [&](uint32_t turn) {
        return std::make_tuple(-turns[turn].priority, got[turns[turn].tenant], turns[turn].tenant);
      };
      if (!best.has_value() || rank(i) < rank(*best)) best = i;
    }
    taken[*best] = true;
    got[turns[*best].tenant] += turns[*best].work / shares.weights()[turns[*best].tenant];
    order.push_back(*best);
  }
  return order;
}

TEST(FairOrder, IsThatOfItsDefinitionForManyTenants) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> weights(1 + random() % 30);
    for (double& weight : weights) weight = static_cast<double>(1 + random() % 4);
    WorkShares shares(weights);
    for (size_t i = 0; i < weights.size(); ++i) shares.Charge(i, static_cast<double>(random() % 9));
    std::vector<WaitingTurn> turns;
    for (size_t i = random() % 300; i > 0; --i) {
      turns.push_back(Waits(static_cast<uint32_t>(random() % weights.size()),
                            static_cast<double>(1 + random() % 8),
                            static_cast<int32_t>(random() % 3)));
    }
    EXPECT_EQ(FairOrder(turns, shares), OrderByDefinition(turns, shares)) << round;
  }
}

// One tenant has 31 long prompts, all of which are overdue, and sends more for ever. The other one
// sends a prompt now and then.
TEST(FairShare, AFloodOfPromptsDoesNotStarveTheOtherTenant) {
  const StepLimits limits{.max_tokens = 576, .max_sequences = 64, .max_prompt_tokens = 128};
  WorkShares shares({1, 1});
  std::vector<StepCandidate> candidates(31);
  for (StepCandidate& flood : candidates) {
    flood = {.position = 0, .remaining = 100'000, .passed_over = 2 * kMostPassedOver};
  }
  candidates.push_back({.position = 10, .remaining = 1, .is_decode = true});  // of tenant 1
  uint64_t waited = 0, longest = 0, prompts = 0;
  std::vector<uint64_t> tokens(2);
  for (uint64_t step = 1; step <= 2000; ++step) {
    const bool has_prompt = candidates.size() > 32;
    if (step % 10 == 0 && !has_prompt) {
      candidates.push_back({.position = 0, .remaining = 256});
      waited = 0;
    }
    shares.Level({true, candidates.size() > 32});
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].tenant_work = shares.got(i < 31 ? 0 : 1);
    }
    bool decoded = false, has_ended = false;
    for (const StepPiece& piece : PlanStep(candidates, limits)) {
      StepCandidate& candidate = candidates[piece.candidate];
      const size_t tenant = piece.candidate < 31 ? 0 : 1;
      decoded |= candidate.is_decode;
      shares.Charge(tenant, piece.num_tokens);
      if (candidate.is_decode) continue;
      tokens[tenant] += piece.num_tokens;
      candidate.position += piece.num_tokens;
      candidate.remaining -= piece.num_tokens;
      if (tenant == 0) candidate.remaining = 100'000;
      if (tenant == 1 && candidate.remaining == 0) has_ended = true;
    }
    EXPECT_TRUE(decoded) << "step " << step;
    longest = std::max(longest, ++waited);
    if (!has_ended) continue;
    ++prompts;
    candidates.pop_back();
    waited = 0;
  }
  EXPECT_GE(prompts, 150u);
  EXPECT_LE(longest, 10u) << "two pieces, and the flood's turn in between";
  EXPECT_GT(tokens[0], tokens[1]) << "the rest is the flood's";
}

}  // namespace
}  // namespace longstream
