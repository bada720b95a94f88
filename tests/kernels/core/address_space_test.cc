// The bytes that a process may reserve under a limit on its address space.
#include "kernels/core/address_space.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace longstream {
namespace {

TEST(AddressSpace, ReservableBytes) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const struct {
    uint64_t limit;
    uint64_t used;
    uint64_t reservable;
  } cases[] = {
      {RLIM_INFINITY, 0, kMost},
      {RLIM_INFINITY, kMost, kMost},
      {10 * kGiB, 1 * kGiB, 8 * kGiB},
      {3 * kGiB, 1 * kGiB, 1 * kGiB},
      {2 * kGiB, 1 * kGiB, kGiB / 4},  // half of what is left is less than 512 MiB
      {kGiB, 0, 3 * kGiB / 8},         // the room is a quarter of the limit
      {kGiB, 3 * kGiB / 4, 0},         // only the room is left
      {kGiB, kGiB, 0},
      {kGiB, 2 * kGiB, 0},  // the limit was lowered later
      {0, 0, 0},
      {RLIM_INFINITY - 1, 0, RLIM_INFINITY - 1 - kGiB},
  };
  for (const auto& [limit, used, reservable] : cases) {
    EXPECT_EQ(ReservableBytes(limit, used), reservable) << limit << " " << used;
  }
}

// Models reserve memory one after the other. Together they must not take the room that threads need
// later.
TEST(AddressSpace, ManyReservationsLeaveTheRoom) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  for (const uint64_t limit : {400 * kMiB, 2400 * kMiB, 100 * 1024 * kMiB}) {
    uint64_t used = limit / 8;
    for (int model = 0; model < 100; ++model) used += ReservableBytes(limit, used);
    EXPECT_GE(limit - used, std::min(limit / 4, 512 * kMiB)) << limit;
  }
}

TEST(AddressSpace, OfThisProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(ReservableBytes(), std::numeric_limits<uint64_t>::max());
  }
  // Large enough for sanitizers, which reserve terabytes.
  const rlimit lower{uint64_t{1} << 60, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &lower), 0);
  EXPECT_LT(ReservableBytes(), uint64_t{1} << 60);
  EXPECT_GT(ReservableBytes(), uint64_t{1} << 59);
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

}  // namespace
}  // namespace longstream
