// Rounds of admission, tested with plain values.
#include "service/engine/policy/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longstream {
namespace {

constexpr RunningTurns kFew{.max_computing = 8};

// Admits a turn that asks for `wanted` bytes and computes.
void Admit(AdmissionRound& round, uint64_t wanted) {
  round.Admit({.computes = true, .free = round.budget().free - wanted, .held = wanted});
}

TEST(AdmissionRound, GoesOnWhileFewTurnsCompute) {
  struct Case {
    const char* name;
    RunningTurns running;
    bool goes_on;
  };
  const Case cases[] = {
      {"none", {.computing = 0, .max_computing = 2, .all = 0}, true},
      {"one computes", {.computing = 1, .max_computing = 2, .all = 1}, true},
      {"the limit", {.computing = 2, .max_computing = 2, .all = 2}, false},
      {"many wait for their clients", {.computing = 1, .max_computing = 2, .all = 5000}, true},
      {"clients that caught up made more compute",
       {.computing = 3, .max_computing = 2, .all = 3},
       false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(AdmissionRound(c.running, {}).GoesOn(), c.goes_on);
  }
}

TEST(AdmissionRound, ATenantHasItsPartOfTheTurnsThatCompute) {
  AdmissionRound round(
      {.computing = 4, .max_computing = 4, .all = 4, .computing_of = {4, 0}, .part_of = {2, 2}},
      {.total = 9, .free = 9});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(round.GoesOn());
    EXPECT_FALSE(round.HasPlaceFor(0));
    EXPECT_TRUE(round.HasPlaceFor(1));
    round.Admit({.tenant = 1, .computes = true, .free = 9});
  }
  EXPECT_FALSE(round.HasPlaceFor(1));
  EXPECT_FALSE(round.GoesOn());
}

TEST(AdmissionRound, ATurnThatWaitsForItsTenantBlocksNobody) {
  AdmissionRound round(kFew, {.total = 100, .free = 50, .coming = 50, .most_coming = 50});
  round.WaitForTenant(AdmissionRound::kMaxOvertaken);
  EXPECT_TRUE(round.GoesOn());
  Admit(round, 10);
  EXPECT_TRUE(round.waiting()[0].is_for_tenant);
  EXPECT_EQ(round.waiting()[0].times_overtaken, AdmissionRound::kMaxOvertaken);
}

TEST(AdmissionRound, AnAdmittedTurnThatComputesCounts) {
  for (const bool computes : {true, false}) {
    SCOPED_TRACE(computes);
    AdmissionRound round({.computing = 1, .max_computing = 2, .all = 1}, {.total = 9, .free = 9});
    round.Admit({.computes = computes, .free = 9});
    EXPECT_EQ(round.GoesOn(), !computes);
  }
}

TEST(AdmissionRound, ATurnIsTriedOnlyWhereItMayFit) {
  AdmissionRound round(kFew, {.total = 100, .free = 50});
  EXPECT_TRUE(round.MayFit({.pages = 40, .fixed = 10}));
  EXPECT_FALSE(round.MayFit({.pages = 41, .fixed = 10})) << "51 bytes are more than are free";
  // On a device, pages have one pool and the other memory has another. So one pool may be full
  // while bytes of the budget are free.
  round.FoundMissing({.pages = 20, .fixed = 5});
  EXPECT_FALSE(round.MayFit({.pages = 20, .fixed = 5}));
  EXPECT_FALSE(round.MayFit({.pages = 30, .fixed = 5}));
  EXPECT_TRUE(round.MayFit({.pages = 19, .fixed = 5}));
  EXPECT_TRUE(round.MayFit({.pages = 30, .fixed = 4}));
}

TEST(AdmissionRound, AnAdmittedTurnTakesMemory) {
  AdmissionRound round(kFew, {.total = 100, .free = 50});
  Admit(round, 30);
  EXPECT_EQ(round.budget().free, 20u);
  EXPECT_EQ(round.budget().coming, 30u);
  EXPECT_EQ(round.budget().most_coming, 30u);
  // A turn that waits for input frees no memory before its client sends some.
  round.Admit({.computes = false, .free = 10, .held = 10});
  EXPECT_EQ(round.budget().coming, 30u);
  EXPECT_EQ(round.budget().most_coming, 40u);
}

TEST(AdmissionRound, ATurnWaitsWhereRunningTurnsCanMakeRoom) {
  struct Case {
    const char* name;
    uint64_t wanted;
    size_t running;
    bool waits;
    bool is_coming;
  };
  const Case cases[] = {
      {"turns that compute make room", 30, 1, true, true},
      {"only the end of all turns does", 60, 1, true, false},
      {"the turn's own session holds the rest", 71, 1, false, false},
      {"nothing runs", 30, 0, false, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RunningTurns running = kFew;
    running.all = c.running;
    AdmissionRound round(running, {.total = 100, .free = 10, .coming = 20, .most_coming = 60});
    EXPECT_EQ(round.Wait({.pages = c.wanted}, 0), c.waits);
    ASSERT_EQ(round.waiting().size(), c.waits ? 1u : 0u);
    if (c.waits) {
      EXPECT_EQ(round.waiting()[0].is_coming, c.is_coming);
    }
  }
}

// The caches of the turn's own session count among those of idle sessions, but to evict them makes
// no room for the turn.
TEST(AdmissionRound, IdleSessionsMakeRoom) {
  AdmissionRound round(kFew, {.total = 100, .free = 10});
  EXPECT_FALSE(round.knows_idle());
  round.SetIdle(30, 5);
  EXPECT_TRUE(round.knows_idle());
  EXPECT_TRUE(round.MayFit({.pages = 40}));
  EXPECT_FALSE(round.MayFit({.pages = 41}));
  EXPECT_FALSE(round.MayFit({.pages = 40}, /*own=*/1));
  EXPECT_TRUE(round.MayFit({.pages = 10}, /*own=*/100)) << "so much is free";
  // No turn runs, but time makes the safe bytes evictable.
  EXPECT_TRUE(round.Wait({.pages = 45}, 0));
  EXPECT_TRUE(round.waiting()[0].is_coming);
  EXPECT_FALSE(round.Wait({.pages = 46}, 0));
  EXPECT_FALSE(round.Wait({.pages = 45}, 0, /*own=*/1));
  round.Admit({.computes = true, .free = 0, .held = 40});
  EXPECT_FALSE(round.knows_idle());
}

TEST(AdmissionRound, ATurnHoldsTheLineOnceItWasOvertakenOftenEnough) {
  RunningTurns running = kFew;
  running.all = 1;
  for (const bool is_coming : {true, false}) {
    SCOPED_TRACE(is_coming ? "its memory is coming" : "a stalled client holds its memory");
    AdmissionRound round(running, {.total = 100,
                                   .free = 10,
                                   .coming = is_coming ? uint64_t{60} : uint64_t{0},
                                   .most_coming = 60});
    ASSERT_TRUE(round.Wait({.pages = 50}, AdmissionRound::kMaxOvertaken - 1));
    EXPECT_TRUE(round.GoesOn());
    Admit(round, 1);
    EXPECT_EQ(round.waiting()[0].times_overtaken, AdmissionRound::kMaxOvertaken);
    EXPECT_EQ(round.GoesOn(), !is_coming);
  }
}

// Counting looks at all open sessions, so a long queue must not do it for each turn.
TEST(AdmissionRound, CountsTheCachesOfTenantsOnceUntilTheyChange) {
  AdmissionRound round(kFew, {.total = 100, .free = 100});
  int counts = 0;
  const auto count = [&counts] {
    ++counts;
    return std::vector<AdmissionRound::TenantCaches>{{10, 20}, {30, 40}};
  };
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(round.CachesOf(0, count).idle, 10u);
    EXPECT_EQ(round.CachesOf(1, count).all, 40u);
    round.WaitForTenant(0);
  }
  EXPECT_EQ(counts, 1);
  Admit(round, 10);
  round.CachesOf(0, count);
  EXPECT_EQ(counts, 2);
  round.ForgetCaches();
  round.CachesOf(1, count);
  EXPECT_EQ(counts, 3);
}

}  // namespace
}  // namespace longstream
