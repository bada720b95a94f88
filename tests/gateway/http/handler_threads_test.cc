#include "gateway/http/handler_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace longstream::gateway {
namespace {

TEST(HandlerThreadsTest, RunsAsMuchWorkAtOnceAsAllowed) {
  HandlerThreads threads(3);
  absl::Notification go_on;
  std::atomic<int> running = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(threads.Run([&] {
      ++running;
      go_on.WaitForNotification();
      --running;
    }));
  }
  EXPECT_FALSE(threads.Run([] {}));
  EXPECT_FALSE(threads.WaitUntilIdle(absl::Milliseconds(20)));
  while (running < 3) {
  }
  go_on.Notify();
  EXPECT_TRUE(threads.WaitUntilIdle(absl::InfiniteDuration()));
  EXPECT_EQ(running, 0);
  EXPECT_TRUE(threads.Run([] {}));
}

TEST(HandlerThreadsTest, NoneAllowed) {
  HandlerThreads threads(0);
  EXPECT_FALSE(threads.Run([] {}));
  EXPECT_TRUE(threads.WaitUntilIdle(absl::ZeroDuration()));
}

TEST(HandlerThreadsTest, TheDestructorWaits) {
  std::atomic<int> ended = 0;
  {
    HandlerThreads threads(8);
    for (int i = 0; i < 8; ++i) threads.Run([&] { ++ended; });
  }
  EXPECT_EQ(ended, 8);
}

// What the work holds is destroyed before the work counts as ended.
TEST(HandlerThreadsTest, IdleMeansThatNothingIsHeld) {
  HandlerThreads threads(4);
  for (int i = 0; i < 1000; ++i) {
    auto held = std::make_shared<int>(i);
    const std::weak_ptr<int> seen = held;
    ASSERT_TRUE(threads.Run([held = std::move(held)] {}));
    ASSERT_TRUE(threads.WaitUntilIdle(absl::Seconds(30)));
    ASSERT_TRUE(seen.expired());
  }
}

TEST(HandlerThreadsTest, WorkFromManyThreads) {
  HandlerThreads threads(4);
  std::atomic<int> run = 0;
  std::atomic<int> refused = 0;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) refused += threads.Run([&] { ++run; }) ? 0 : 1;
      });
    }
  }
  EXPECT_TRUE(threads.WaitUntilIdle(absl::Seconds(30)));
  EXPECT_EQ(run + refused, 4000);
}

}  // namespace
}  // namespace longstream::gateway
