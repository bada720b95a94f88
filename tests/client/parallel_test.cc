// ForEach and ForEachInOrder run calls on several threads.
#include "client/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace longstream::client {
namespace {

TEST(ForEachTest, DoesAllOnce) {
  std::vector<std::atomic<int>> done(100);
  ForEach(100, 7, [&](int i) { ++done[static_cast<size_t>(i)]; });
  for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1);
  ForEach(0, 7, [&](int) { FAIL(); });
}

// Each call waits until all three threads are inside a call.
TEST(ForEachTest, RunsSeveralAtOnce) {
  std::atomic<int> inside = 0;
  ForEach(3, 3, [&](int) {
    ++inside;
    while (inside < 3) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 3);
}

TEST(ForEachTest, ThrowsWhatWasThrownFirstAndStops) {
  int calls = 0;
  const auto work = [&](int i) {
    ++calls;
    if (i == 3) throw std::runtime_error("3");
  };
  EXPECT_THROW(ForEach(1000, 1, work), std::runtime_error);
  EXPECT_EQ(calls, 4);
  std::atomic<int> of_three = 0;
  const auto fails = [&](int) {
    ++of_three;
    throw std::runtime_error("all");
  };
  EXPECT_THROW(ForEach(1000, 3, fails), std::runtime_error);
  EXPECT_LE(of_three, 3);
}

// The call for i = 0 ends last, because it waits for the other three calls.
TEST(ForEachInOrderTest, TakesResultsInOrder) {
  std::atomic<int> ended = 0;
  std::vector<int> taken;
  const auto work = [&](int i) {
    while (i == 0 && ended < 3) std::this_thread::yield();
    ++ended;
    return 10 * i;
  };
  ForEachInOrder<int>(4, 2, work, [&](int result) { taken.push_back(result); });
  EXPECT_EQ(taken, (std::vector<int>{0, 10, 20, 30}));
}

}  // namespace
}  // namespace longstream::client
