// How many threads compute, by affinity and quota.
#include "kernels/core/limits/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <limits>

#include "kernels/core/thread_pool.h"

namespace longstream {
namespace {

TEST(ProcessorsTest, ThreadsByProcessorsAndQuota) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const struct {
    uint32_t processors;
    double quota;
    uint32_t threads;
  } cases[] = {{8, kNone, 8}, {8, 4.0, 4},   {8, 2.5, 2},   {8, 1.99, 1}, {8, 0.5, 1}, {8, 0.0, 1},
               {2, 3.5, 2},   {1, kNone, 1}, {0, kNone, 1}, {8, 1e30, 8}, {8, 8.0, 8}};
  for (const auto& test : cases) {
    EXPECT_EQ(ThreadsFor(test.processors, test.quota), test.threads)
        << test.processors << " processors, quota " << test.quota;
  }
}

TEST(ProcessorsTest, AThreadBoundToOneProcessorHasOne) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_GE(UsableProcessors(), 1u);
  EXPECT_LE(UsableProcessors(), static_cast<uint32_t>(CPU_COUNT(&before)));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableProcessors(), 1u);
  EXPECT_EQ(ThreadPool(0).num_threads(), 1u);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace longstream
