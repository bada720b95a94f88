// How sessions are divided among the arms of an alias, and which of them move when weights change.
#include "service/serving/aliases/arm_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace longstream {
namespace {

constexpr int kManySessions = 10'000;

// Ids as different clients make them: random, counted up, and with only the upper bits different.
enum class Ids { kRandom, kCounted, kHighBits };

SessionId IdOf(Ids kind, uint64_t i) {
  if (kind == Ids::kCounted) return {0, i};
  if (kind == Ids::kHighBits) return {i << 44, 7};
  // SplitMix64 with another constant than the hash under test.
  const auto mixed = [](uint64_t z) {
    z = (z ^ (z >> 33)) * 0xFF51AFD7ED558CCDu;
    z = (z ^ (z >> 33)) * 0xC4CEB9FE1A85EC53u;
    return z ^ (z >> 33);
  };
  return {mixed(2 * i + 1), mixed(2 * i + 2)};
}

AliasConfig ChatWith(std::vector<AliasArm> arms, std::string name = "chat") {
  return {std::move(name), std::move(arms)};
}

// The number of sessions on each arm.
std::vector<int> Split(const AliasConfig& alias, Ids ids) {
  std::vector<int> counts(alias.arms.size());
  for (uint64_t i = 0; i < kManySessions; ++i) ++counts[ChooseArm(alias, IdOf(ids, i))];
  return counts;
}

// P(X <= k) for a binomial X.
double BinomialCdf(int k, int n, double p) {
  double sum = 0;
  for (int i = 0; i <= k; ++i) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) +
                    i * std::log(p) + (n - i) * std::log1p(-p));
  }
  return sum;
}

// Whether the count is in the middle 99.9 % of the binomial distribution.
bool IsPlausible(int count, double p) {
  constexpr double kTail = 0.0005;
  return BinomialCdf(count, kManySessions, p) > kTail &&
         BinomialCdf(count - 1, kManySessions, p) < 1 - kTail;
}

TEST(ArmChoiceTest, TheIntervalOfTheTestIsThatOfTheBinomialDistribution) {
  EXPECT_FALSE(IsPlausible(8899, 0.9));
  EXPECT_TRUE(IsPlausible(8900, 0.9));
  EXPECT_TRUE(IsPlausible(9097, 0.9));
  EXPECT_FALSE(IsPlausible(9098, 0.9));
}

TEST(ArmChoiceTest, TenThousandSessionsAreSplitByTheWeights) {
  for (const Ids ids : {Ids::kRandom, Ids::kCounted, Ids::kHighBits}) {
    SCOPED_TRACE(static_cast<int>(ids));
    const std::vector<int> split = Split(ChatWith({{"dense", 90}, {"hypenet", 10}}), ids);
    EXPECT_TRUE(IsPlausible(split[0], 0.9)) << split[0];
    EXPECT_EQ(split[0] + split[1], kManySessions);
    const std::vector<int> even =
        Split(ChatWith({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}}), ids);
    for (const int count : even) EXPECT_TRUE(IsPlausible(count, 0.2)) << count;
    const std::vector<int> rare = Split(ChatWith({{"a", 999'000}, {"b", 1'000}}), ids);
    EXPECT_TRUE(IsPlausible(rare[1], 0.001)) << rare[1];
  }
}

TEST(ArmChoiceTest, TheSameSessionHasTheSameArm) {
  const AliasConfig alias = ChatWith({{"dense", 90}, {"hypenet", 10}});
  const AliasConfig turned = ChatWith({{"hypenet", 10}, {"dense", 90}});
  const AliasConfig scaled = ChatWith({{"dense", 900'000}, {"hypenet", 100'000}});
  for (uint64_t i = 0; i < 1000; ++i) {
    const SessionId id = IdOf(Ids::kRandom, i);
    const size_t arm = ChooseArm(alias, id);
    EXPECT_EQ(ChooseArm(alias, id), arm);
    EXPECT_EQ(ChooseArm(turned, id), 1 - arm) << "the order does not matter";
    EXPECT_EQ(ChooseArm(scaled, id), arm) << "only the ratio matters";
  }
}

// Other releases of the server must choose the same arms: repeats of an OpenSession after an update
// would otherwise move sessions.
TEST(ArmChoiceTest, TheChoicesStay) {
  const AliasConfig alias = ChatWith({{"dense", 50}, {"hypenet", 50}});
  std::string arms;
  for (uint64_t i = 0; i < 32; ++i) {
    arms += ChooseArm(alias, IdOf(Ids::kCounted, i)) == 0 ? 'd' : 'h';
  }
  // As a second implementation, in Python, has computed them.
  EXPECT_EQ(arms, "dhddhddhhhdddddddhhhddhhdhddhhhd");
}

TEST(ArmChoiceTest, SessionsMoveOnlyToAnArmThatGrows) {
  const AliasConfig before = ChatWith({{"dense", 90}, {"hwfa2", 5}, {"hypenet", 5}});
  const AliasConfig after = ChatWith({{"dense", 90}, {"hwfa2", 5}, {"hypenet", 15}});
  int moved = 0;
  for (uint64_t i = 0; i < kManySessions; ++i) {
    const SessionId id = IdOf(Ids::kRandom, i);
    const size_t old_arm = ChooseArm(before, id), new_arm = ChooseArm(after, id);
    if (old_arm == new_arm) continue;
    EXPECT_EQ(new_arm, 2u);
    ++moved;
  }
  // From 5 of 100 to 15 of 110: nobody else moves.
  EXPECT_TRUE(IsPlausible(moved, 15.0 / 110 - 5.0 / 100)) << moved;
}

TEST(ArmChoiceTest, SessionsMoveOnlyFromAnArmThatShrinks) {
  const AliasConfig before = ChatWith({{"dense", 60}, {"hwfa2", 20}, {"hypenet", 20}});
  const AliasConfig after = ChatWith({{"dense", 60}, {"hwfa2", 20}, {"hypenet", 0}});
  const AliasConfig without = ChatWith({{"dense", 60}, {"hwfa2", 20}});
  for (uint64_t i = 0; i < kManySessions; ++i) {
    const SessionId id = IdOf(Ids::kRandom, i);
    const size_t old_arm = ChooseArm(before, id), new_arm = ChooseArm(after, id);
    EXPECT_NE(new_arm, 2u) << "no session begins on an arm without weight";
    EXPECT_TRUE(old_arm == 2 || new_arm == old_arm) << i;
    EXPECT_EQ(ChooseArm(without, id), new_arm);
  }
}

TEST(ArmChoiceTest, ADriftOfTheWeightsMovesEachSessionOnce) {
  for (uint64_t i = 0; i < 500; ++i) {
    const SessionId id = IdOf(Ids::kRandom, i);
    size_t arm = 0;
    for (uint64_t percent = 0; percent <= 100; ++percent) {
      const size_t now = ChooseArm(ChatWith({{"old", 100 - percent}, {"new", percent}}), id);
      EXPECT_GE(now, arm) << "back to the old arm at " << percent << " %";
      arm = now;
    }
    EXPECT_EQ(arm, 1u);
  }
}

TEST(ArmChoiceTest, AliasesOfTheSameArmsChooseIndependently) {
  const AliasConfig one = ChatWith({{"a", 1}, {"b", 1}}, "one"),
                    two = ChatWith({{"a", 1}, {"b", 1}}, "two");
  int equal = 0;
  for (uint64_t i = 0; i < kManySessions; ++i) {
    const SessionId id = IdOf(Ids::kCounted, i);
    equal += ChooseArm(one, id) == ChooseArm(two, id) ? 1 : 0;
  }
  EXPECT_TRUE(IsPlausible(equal, 0.5)) << equal;
}

// The turns of the sessions, each with the same ids of turns.
TEST(ShadowChoiceTest, ChoosesTheShareOfTheTurnsAndKeepsThemWhenItGrows) {
  for (const Ids ids : {Ids::kRandom, Ids::kCounted, Ids::kHighBits}) {
    int of_tenth = 0;
    int of_half = 0;
    for (uint64_t i = 0; i < kManySessions; ++i) {
      const SessionId session = IdOf(ids, i / 10);
      const SessionId turn = IdOf(ids, i % 10);
      const bool is_of_tenth = ChooseForShadow("chat", 0.1, session, turn);
      const bool is_of_half = ChooseForShadow("chat", 0.5, session, turn);
      EXPECT_LE(is_of_tenth, is_of_half);
      EXPECT_EQ(is_of_half, ChooseForShadow("chat", 0.5, session, turn));
      EXPECT_TRUE(ChooseForShadow("chat", 1, session, turn));
      EXPECT_FALSE(ChooseForShadow("chat", 0, session, turn));
      of_tenth += is_of_tenth ? 1 : 0;
      of_half += is_of_half ? 1 : 0;
    }
    EXPECT_TRUE(IsPlausible(of_tenth, 0.1)) << of_tenth;
    EXPECT_TRUE(IsPlausible(of_half, 0.5)) << of_half;
  }
}

}  // namespace
}  // namespace longstream
