// Tests of the memory and the time that turns in the background may take.
#include "service/engine/policy/background.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace longstream {
namespace {

constexpr uint64_t kMostTurns = std::numeric_limits<uint64_t>::max();

TEST(Background, TakesMemoryThatNobodyNeedsSoon) {
  struct Case {
    uint64_t wanted, free, total;
    bool may;
  };
  const Case cases[] = {
      {0, 10, 80, true},
      {0, 9, 80, false},
      {30, 40, 80, true},
      {31, 40, 80, false},
      {70, 80, 80, true},
      {80, 80, 80, false},
      {kMostTurns, 80, 80, false},
      {1, 0, 80, false},
      {kMostTurns / 2, kMostTurns, kMostTurns, true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(BackgroundMayTake(c.wanted, c.free, c.total), c.may)
        << c.wanted << " of " << c.free << " free, total " << c.total;
  }
}

TEST(Background, KeepsMemoryWhileOtherWorkHasEnough) {
  struct Case {
    uint64_t wanted, free, total;
    bool may;
  };
  const Case cases[] = {
      {0, 10, 160, true},
      {0, 9, 160, false},
      {30, 40, 160, true},
      {31, 40, 160, false},
      {kMostTurns, 160, 160, false},
      {160, kMostTurns, 160, true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(BackgroundMayKeep(c.wanted, c.free, c.total), c.may)
        << c.wanted << " of " << c.free << " free, total " << c.total;
  }
}

TEST(Background, BeginsAfterAPause) {
  const MonotonicTime now = MonotonicTime::Now();
  EXPECT_EQ(BackgroundBegins(now, absl::Milliseconds(10)), now + absl::Milliseconds(10));
  EXPECT_EQ(BackgroundBegins(MonotonicTime::InfiniteFuture(), absl::Milliseconds(10)),
            MonotonicTime::InfiniteFuture());
  EXPECT_LT(BackgroundBegins(MonotonicTime::InfinitePast(), absl::Milliseconds(10)), now);
}

}  // namespace
}  // namespace longstream
