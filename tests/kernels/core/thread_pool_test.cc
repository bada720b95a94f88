// Tests of the thread pool.
#include "kernels/core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace longstream {
namespace {

class ThreadPoolTest : public testing::TestWithParam<uint32_t> {};

TEST_P(ThreadPoolTest, RunsEveryTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.num_threads(), GetParam());
  for (uint32_t num_tasks : {0u, 1u, 2u, 3u, 7u, 64u, 1000u}) {
    std::vector<std::atomic<int>> calls(num_tasks);
    ParallelFor(pool.AsExecutor(), num_tasks, [&](uint32_t i) { ++calls[i]; });
    for (uint32_t i = 0; i < num_tasks; ++i) EXPECT_EQ(calls[i], 1) << i << " of " << num_tasks;
  }
}

// Tasks write plain values that the caller reads afterwards. If the writes were not visible to the
// caller, ThreadSanitizer would report a race.
TEST_P(ThreadPoolTest, TasksHappenBeforeTheReturn) {
  ThreadPool pool(GetParam());
  const Executor executor = pool.AsExecutor();
  std::vector<uint32_t> values(257, 0);
  for (uint32_t round = 1; round <= 2000; ++round) {
    ParallelFor(executor, static_cast<uint32_t>(values.size()), [&](uint32_t i) { ++values[i]; });
    ASSERT_EQ(values[round % values.size()], round);
  }
  for (uint32_t value : values) EXPECT_EQ(value, 2000u);
}

TEST_P(ThreadPoolTest, WakesWorkersThatSleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // All threads must take part: the loop goes on until each thread has had a task.
    std::mutex mutex;
    std::set<std::thread::id> threads;
    ParallelFor(pool.AsExecutor(), 1000 * GetParam(), [&](uint32_t) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        threads.insert(std::this_thread::get_id());
        if (threads.size() == GetParam()) return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
    EXPECT_EQ(threads.size(), GetParam());
  }
}

TEST_P(ThreadPoolTest, ServesSeveralCallersAtOnce) {
  ThreadPool pool(GetParam());
  constexpr int kCallers = 3;
  std::vector<uint64_t> sums(kCallers, 0);
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&pool, &sums, c] {
      std::vector<uint64_t> values(33, 0);
      for (int round = 0; round < 500; ++round) {
        ParallelFor(pool.AsExecutor(), 33, [&](uint32_t i) { values[i] += i; });
      }
      for (uint64_t value : values) sums[c] += value;
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (uint64_t sum : sums) EXPECT_EQ(sum, 500u * (32u * 33u / 2));
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, CountsTheProcessorsByDefault) { EXPECT_GE(ThreadPool(0).num_threads(), 1u); }

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int round = 0; round < 50; ++round) ThreadPool pool(4);
}

TEST(Executor, RunsInOrderWithoutAPool) {
  std::vector<uint32_t> order;
  ParallelFor(Executor{}, 5, [&](uint32_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace longstream
