// The rotation of places in the batch, with plain values.
#include "service/engine/policy/batch_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace longstream {
namespace {

constexpr int32_t kLow = 0;
constexpr int32_t kNormal = 1;
constexpr int32_t kHigh = 2;

using Indices = std::vector<uint32_t>;

PlaceCandidate Holds(int32_t priority, uint64_t since) {
  return {.priority = priority, .holds_place = true, .since = since};
}
PlaceCandidate IsOver(int32_t priority, uint64_t since) {
  return {.priority = priority, .holds_place = true, .slice_is_over = true, .since = since};
}
PlaceCandidate WaitsForPlace(int32_t priority, uint64_t since) {
  return {.priority = priority, .since = since};
}
PlaceCandidate IsNew(int32_t priority, uint64_t since) {
  return {.priority = priority, .is_new = true, .since = since};
}

struct PlacesCase {
  const char* name;
  size_t places;
  std::vector<PlaceCandidate> candidates;
  Indices yields, renews, takes;
};

void ExpectChanges(std::span<const PlacesCase> cases) {
  for (const PlacesCase& c : cases) {
    SCOPED_TRACE(c.name);
    const PlaceChanges changes = SharePlaces(c.candidates, c.places, 0.5, PlaceShares());
    EXPECT_EQ(changes.yields, c.yields);
    EXPECT_EQ(changes.renews, c.renews);
    EXPECT_EQ(changes.takes, c.takes);
  }
}

TEST(SharePlaces, AmongTurnsOfOnePriority) {
  const PlacesCase cases[] = {
      {"no candidates", 2, {}, {}, {}, {}},
      {"a place for all",
       3,
       {IsNew(kLow, 1), IsOver(kHigh, 1), WaitsForPlace(kLow, 2)},
       {},
       {},
       {0, 2}},
      {"no turn waits", 2, {IsOver(kNormal, 1), IsOver(kNormal, 1)}, {}, {}, {}},
      {"no slice is over", 1, {Holds(kLow, 1), IsNew(kHigh, 2)}, {}, {}, {}},
      {"a turn yields when its slice is over",
       1,
       {IsOver(kNormal, 1), IsNew(kNormal, 2)},
       {0},
       {},
       {1}},
      {"only as many yield as wait",
       2,
       {IsOver(kNormal, 1), IsOver(kNormal, 2), WaitsForPlace(kNormal, 3)},
       {0},
       {},
       {2}},
      {"the turn that got its place first yields",
       2,
       {IsOver(kNormal, 7), IsOver(kNormal, 4), WaitsForPlace(kNormal, 8)},
       {1},
       {},
       {2}},
      {"the turn that has waited longest goes first",
       1,
       {IsOver(kNormal, 1), WaitsForPlace(kNormal, 9), WaitsForPlace(kNormal, 5)},
       {0},
       {},
       {2}},
      {"a first slice comes soon",
       1,
       {IsOver(kNormal, 1), WaitsForPlace(kNormal, 2), IsNew(kNormal, 9)},
       {0},
       {},
       {2}},
      {"first slices and later slices alternate",
       4,
       {WaitsForPlace(kNormal, 1), WaitsForPlace(kNormal, 2), WaitsForPlace(kNormal, 3),
        IsNew(kNormal, 8), IsNew(kNormal, 9)},
       {},
       {},
       {3, 0, 4, 1}},
      {"free places are taken before a turn yields",
       2,
       {IsOver(kNormal, 1), WaitsForPlace(kNormal, 2)},
       {},
       {},
       {1}},
      {"more turns hold places than there are",
       1,
       {Holds(kLow, 1), IsOver(kLow, 1), WaitsForPlace(kLow, 2)},
       {1},
       {},
       {2}},
  };
  ExpectChanges(cases);
}

TEST(SharePlaces, AmongPriorities) {
  const PlacesCase cases[] = {
      {"high priority goes first",
       1,
       {IsOver(kNormal, 1), IsNew(kLow, 2), IsNew(kNormal, 2), IsNew(kHigh, 9)},
       {0},
       {},
       {3}},
      {"low priority yields first",
       3,
       {IsOver(kHigh, 1), IsOver(kLow, 3), IsOver(kNormal, 2), IsNew(kNormal, 9)},
       {1},
       {},
       {3}},
      {"low priority does not displace high priority at once",
       1,
       {IsOver(kHigh, 1), IsNew(kLow, 2)},
       {},
       {0},
       {}},
      {"priorities out of range count as the nearest",
       1,
       {WaitsForPlace(-7, 1), WaitsForPlace(99, 2)},
       {},
       {},
       {1}},
  };
  ExpectChanges(cases);
}

// The machine has stalled for a day while a turn of low priority held the place.
TEST(SharePlaces, AStallIsNotCharged) {
  std::vector<PlaceCandidate> candidates = {IsOver(kLow, 1), IsNew(kNormal, 2)};
  PlaceChanges changes = SharePlaces(candidates, 1, 86400 * 20.0, PlaceShares());
  EXPECT_EQ(changes.takes, Indices{1});
  int decisions = 0;
  for (candidates = {WaitsForPlace(kLow, 3), IsOver(kNormal, 4)}; changes.takes != Indices{0};) {
    changes = SharePlaces(candidates, 1, 1, changes.shares);
    ASSERT_LT(++decisions, 1000);
  }
}

// Turns that always have something to compute, or that end after some steps. Each call of Step is
// one decision and one step.
class Rotation {
 public:
  Rotation(size_t places, uint64_t steps_a_slice, std::vector<double> weights = {})
      : places_(places), slice_(steps_a_slice), weights_(std::move(weights)) {}

  struct Turn {
    PlaceCandidate place;
    uint64_t steps_left = 0;
    uint64_t steps = 0;        // steps that it took part in
    uint64_t slice_steps = 0;  // those of its present slice
    uint64_t waits = 0;        // steps since it last took part in one
    uint64_t longest_wait = 0;
    bool ended = false;
  };

  size_t Add(int32_t priority, uint64_t steps = uint64_t{1} << 40, uint32_t tenant = 0) {
    turns_.push_back({.place = IsNew(priority, ++changes_), .steps_left = steps});
    turns_.back().place.tenant = tenant;
    return turns_.size() - 1;
  }
  const Turn& turn(size_t index) const { return turns_[index]; }
  // The steps of all turns of a tenant.
  uint64_t StepsOf(uint32_t tenant) const {
    uint64_t steps = 0;
    for (const Turn& turn : turns_) steps += turn.place.tenant == tenant ? turn.steps : 0;
    return steps;
  }

  void Step() {
    std::vector<size_t> able;
    std::vector<PlaceCandidate> candidates;
    for (size_t i = 0; i < turns_.size(); ++i) {
      Turn& turn = turns_[i];
      if (turn.ended) continue;
      turn.place.slice_is_over = turn.place.holds_place && turn.slice_steps >= slice_;
      able.push_back(i);
      candidates.push_back(turn.place);
    }
    const PlaceChanges changes =
        SharePlaces(candidates, places_, 1.0 / static_cast<double>(slice_), shares_, weights_);
    shares_ = changes.shares;
    for (const uint32_t i : changes.yields) Change(turns_[able[i]], false);
    for (const uint32_t i : changes.renews) Change(turns_[able[i]], true);
    for (const uint32_t i : changes.takes) Change(turns_[able[i]], true);
    size_t held = 0;
    for (const size_t i : able) {
      Turn& turn = turns_[i];
      held += turn.place.holds_place;
      turn.waits = turn.place.holds_place ? 0 : turn.waits + 1;
      turn.longest_wait = std::max(turn.longest_wait, turn.waits);
      if (!turn.place.holds_place) continue;
      ++turn.steps;
      ++turn.slice_steps;
      turn.ended = --turn.steps_left == 0;
    }
    EXPECT_EQ(held, std::min(places_, able.size())) << "a place is empty, or has two turns";
  }

 private:
  void Change(Turn& turn, bool holds) {
    turn.place.holds_place = holds;
    turn.place.is_new &= !holds;
    turn.place.since = ++changes_;
    turn.slice_steps = 0;
  }

  const size_t places_;
  const uint64_t slice_;
  const std::vector<double> weights_;
  uint64_t changes_ = 0;
  PlaceShares shares_;
  std::vector<Turn> turns_;
};

TEST(SharePlacesInTime, EqualTurnsProgressEqually) {
  for (const size_t turns : {65, 128, 256, 1000}) {
    SCOPED_TRACE(turns);
    constexpr uint64_t kPlaces = 64;
    constexpr uint64_t kSlice = 5;
    constexpr uint64_t kSteps = 4000;
    Rotation rotation(kPlaces, kSlice);
    for (size_t i = 0; i < turns; ++i) rotation.Add(kNormal);
    const uint64_t warm_up = turns;  // until the turns have had their first slices
    for (uint64_t step = 0; step < warm_up; ++step) rotation.Step();
    std::vector<uint64_t> before;
    for (size_t i = 0; i < turns; ++i) before.push_back(rotation.turn(i).steps);
    for (uint64_t step = 0; step < kSteps; ++step) rotation.Step();
    // All turns have had a slice after so many slices. At first the turns that have already had one
    // get every second slice.
    const uint64_t slices = 2 * ((turns + kPlaces - 1) / kPlaces);
    for (size_t i = 0; i < turns; ++i) {
      EXPECT_LE(rotation.turn(i).longest_wait, slices * kSlice) << i;
      const auto fair = static_cast<double>(kSteps * kPlaces) / static_cast<double>(turns);
      const auto steps = static_cast<double>(rotation.turn(i).steps - before[i]);
      EXPECT_NEAR(steps, fair, 0.01 * fair + 2 * kSlice) << i;
    }
  }
}

// However many turns rotate, a new turn has a place after one slice.
TEST(SharePlacesInTime, ANewTurnWaitsForOneSliceAtMost) {
  for (const size_t turns : {64, 65, 256, 1000}) {
    SCOPED_TRACE(turns);
    constexpr uint64_t kSlice = 5;
    Rotation rotation(64, kSlice);
    for (size_t i = 0; i < turns; ++i) rotation.Add(kNormal);
    for (int i = 0; i < 401; ++i) rotation.Step();
    for (int i = 0; i < 30; ++i) {
      const size_t turn = rotation.Add(kNormal, 1);
      for (uint64_t step = 0; step <= kSlice && !rotation.turn(turn).ended; ++step) rotation.Step();
      EXPECT_TRUE(rotation.turn(turn).ended) << i;
    }
  }
}

TEST(SharePlacesInTime, PrioritiesShareByWeight) {
  for (const uint64_t slice : {1, 8}) {
    SCOPED_TRACE(slice);
    Rotation rotation(10, slice);
    for (const int32_t priority : {kLow, kNormal, kHigh}) {
      for (int i = 0; i < 40; ++i) rotation.Add(priority);
    }
    for (uint64_t step = 0; step < 20000; ++step) rotation.Step();
    double steps[3] = {};
    for (size_t i = 0; i < 120; ++i) steps[i / 40] += static_cast<double>(rotation.turn(i).steps);
    EXPECT_NEAR(steps[kNormal] / steps[kLow], 4, 0.4);
    EXPECT_NEAR(steps[kHigh] / steps[kNormal], 4, 0.4);
  }
}

// Sixteen slices of high priority pass for one of low priority.
TEST(SharePlacesInTime, LowPriorityWaitsForABoundedTime) {
  constexpr uint64_t kSlice = 5;
  for (const size_t places : {1, 64}) {
    SCOPED_TRACE(places);
    Rotation rotation(places, kSlice);
    for (int i = 0; i < 200; ++i) rotation.Add(kHigh);
    const size_t low = rotation.Add(kLow);
    for (int i = 0; i < 5000; ++i) rotation.Step();
    EXPECT_LE(rotation.turn(low).longest_wait, 18 * 2 * kSlice);
    EXPECT_GT(rotation.turn(low).steps, 5000u / (18 * 2));
  }
}

// Short turns of high priority arrive without end, each as soon as the one before has ended.
TEST(SharePlacesInTime, ShortTurnsDoNotStopLongOnes) {
  for (const int32_t priority : {kNormal, kHigh}) {
    SCOPED_TRACE(priority);
    Rotation rotation(1, 3);
    const size_t low = rotation.Add(kLow);
    const size_t normal = rotation.Add(kNormal);
    for (int i = 0; i < 6000; ++i) {
      rotation.Add(priority, 1);
      rotation.Step();
    }
    EXPECT_GT(rotation.turn(normal).steps, 200u);
    EXPECT_GT(rotation.turn(low).steps, 50u);
  }
}

// For a long time there is no turn of low priority, or only one that always has a place. Turns of
// low priority that arrive later do not get the time that the group did not use.
TEST(SharePlacesInTime, AGroupSavesUpNothing) {
  for (const bool has_one : {false, true}) {
    SCOPED_TRACE(has_one);
    Rotation rotation(8, 4);
    if (has_one) rotation.Add(kLow);
    std::vector<size_t> normal;
    for (int i = 0; i < 16; ++i) normal.push_back(rotation.Add(kNormal));
    for (int i = 0; i < 2000; ++i) rotation.Step();
    for (int i = 0; i < 30; ++i) rotation.Add(kLow);
    uint64_t before = 0, after = 0;
    for (const size_t turn : normal) before += rotation.turn(turn).steps;
    for (int i = 0; i < 100; ++i) rotation.Step();
    for (const size_t turn : normal) after += rotation.turn(turn).steps;
    EXPECT_GT(after - before, 100u * 8 / 2);
  }
}

constexpr uint64_t kForEver = uint64_t{1} << 40;

// One tenant floods with 500 long turns, and with short new ones in each step.
TEST(SharePlacesInTime, ATurnKeepsItsPlaceDuringTheFloodOfAnotherTenant) {
  for (const size_t places : {2, 4, 64}) {
    SCOPED_TRACE(places);
    constexpr uint64_t kSlice = 5;
    Rotation rotation(places, kSlice, {1, 1});
    for (int i = 0; i < 500; ++i) rotation.Add(kNormal, kForEver, 0);
    for (int i = 0; i < 200; ++i) rotation.Step();
    const size_t turn = rotation.Add(kNormal, kForEver, 1);
    for (int i = 0; i < 1000; ++i) {
      rotation.Add(kNormal, 1, 0);
      rotation.Step();
    }
    EXPECT_LE(rotation.turn(turn).longest_wait, 2 * kSlice) << "until it has its first place";
    EXPECT_GE(rotation.turn(turn).steps, 1000 - 2 * kSlice);
  }
}

TEST(SharePlacesInTime, TenantsShareByWeight) {
  struct Share {
    const char* name;
    size_t places;
    std::vector<double> weights;
    size_t turns_of_0, turns_of_1;
    double share_of_1;
  };
  const Share cases[] = {
      {"equal, however many turns", 8, {1, 1}, 400, 20, 0.5},
      {"by weight", 8, {3, 1}, 20, 400, 0.25},
      {"one place", 1, {1, 1}, 30, 1, 0.5},
      {"one place, by weight", 1, {3, 1}, 1, 30, 0.25},
      {"a tenant that wants less gets it", 8, {1, 1}, 400, 2, 0.25},
      {"its own turns share one tenant's part", 3, {2, 1}, 1, 50, 2.0 / 3},
  };
  for (const Share& c : cases) {
    SCOPED_TRACE(c.name);
    Rotation rotation(c.places, 5, c.weights);
    for (size_t i = 0; i < c.turns_of_0; ++i) rotation.Add(kNormal, kForEver, 0);
    for (size_t i = 0; i < c.turns_of_1; ++i) rotation.Add(kNormal, kForEver, 1);
    for (int i = 0; i < 500; ++i) rotation.Step();
    const uint64_t before = rotation.StepsOf(1);
    constexpr uint64_t kSteps = 5000;
    for (uint64_t i = 0; i < kSteps; ++i) rotation.Step();
    const auto steps = static_cast<double>(rotation.StepsOf(1) - before);
    EXPECT_NEAR(steps / static_cast<double>(kSteps * c.places), c.share_of_1, 0.05);
  }
}

TEST(SharePlacesInTime, ATenantSavesUpNothing) {
  Rotation rotation(8, 4, {1, 1});
  rotation.Add(kNormal, kForEver, 1);
  for (int i = 0; i < 30; ++i) rotation.Add(kNormal, kForEver, 0);
  for (int i = 0; i < 5000; ++i) rotation.Step();
  for (int i = 0; i < 30; ++i) rotation.Add(kNormal, kForEver, 1);
  const uint64_t before = rotation.StepsOf(0);
  for (int i = 0; i < 100; ++i) rotation.Step();
  EXPECT_GT(rotation.StepsOf(0) - before, 100u * 8 / 3);
}

// Turns of random lengths, priorities and tenants arrive at random. All of them end.
TEST(SharePlacesInTime, AllTurnsOfAllTenantsEnd) {
  std::mt19937 random(6);
  for (int round = 0; round < 50; ++round) {
    Rotation rotation(1 + random() % 9, 1 + random() % 7, {1, 5, 0.5});
    std::vector<size_t> turns;
    uint64_t work = 0;
    for (int step = 0; step < 200; ++step) {
      if (random() % 3 == 0) {
        const uint64_t steps = 1 + random() % 40;
        work += steps;
        turns.push_back(rotation.Add(static_cast<int32_t>(random() % 3), steps,
                                     static_cast<uint32_t>(random() % 3)));
      }
      rotation.Step();
    }
    for (uint64_t step = 0; step < work; ++step) rotation.Step();
    for (const size_t turn : turns) EXPECT_TRUE(rotation.turn(turn).ended) << turn;
  }
}

// Turns of random lengths and priorities arrive at random. All of them end.
TEST(SharePlacesInTime, AllTurnsEnd) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    Rotation rotation(1 + random() % 9, 1 + random() % 7);
    std::vector<size_t> turns;
    uint64_t work = 0;
    for (int step = 0; step < 200; ++step) {
      if (random() % 3 == 0) {
        const uint64_t steps = 1 + random() % 40;
        work += steps;
        turns.push_back(rotation.Add(static_cast<int32_t>(random() % 3), steps));
      }
      rotation.Step();
    }
    for (uint64_t step = 0; step < work; ++step) rotation.Step();
    for (const size_t turn : turns) EXPECT_TRUE(rotation.turn(turn).ended) << turn;
  }
}

}  // namespace
}  // namespace longstream
