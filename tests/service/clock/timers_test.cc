// Timers: their order, cancelled ones, and their end.
#include "service/clock/timers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace longstream {
namespace {

using testing::ElementsAre;

TEST(TimersTest, CallsInTheOrderOfTheirTimesAndNotEarlier) {
  std::vector<int> called;
  absl::Notification last;
  Timers timers;
  const MonotonicTime now = MonotonicTime::Now();
  MonotonicTime at;
  timers.Set(now + absl::Milliseconds(60), [&] {
    called.push_back(3);
    at = MonotonicTime::Now();
    last.Notify();
  });
  timers.Set(now + absl::Milliseconds(20), [&] { called.push_back(1); });
  timers.Set(now + absl::Milliseconds(40), [&] { called.push_back(2); });
  timers.Set(now - absl::Hours(1), [&] { called.push_back(0); });
  last.WaitForNotification();
  EXPECT_THAT(called, ElementsAre(0, 1, 2, 3));
  EXPECT_GE(at, now + absl::Milliseconds(60));
}

TEST(TimersTest, EqualTimesAreCalledInTheOrderOfSet) {
  std::vector<int> called;
  absl::Notification last;
  Timers timers;
  const MonotonicTime time = MonotonicTime::Now() + absl::Milliseconds(20);
  for (int i = 0; i < 3; ++i) timers.Set(time, [&called, i] { called.push_back(i); });
  timers.Set(time, [&] { last.Notify(); });
  last.WaitForNotification();
  EXPECT_THAT(called, ElementsAre(0, 1, 2));
}

TEST(TimersTest, ACancelledFunctionIsFreedAndNotCalled) {
  std::atomic<bool> called{false};
  const auto captured = std::make_shared<int>(0);
  Timers timers;
  const MonotonicTime time = MonotonicTime::Now() + absl::Milliseconds(30);
  const Timers::Id id = timers.Set(time, [&called, captured] { called = true; });
  timers.Cancel(id);
  EXPECT_EQ(captured.use_count(), 1);
  absl::Notification later;
  timers.Set(time, [&] { later.Notify(); });
  later.WaitForNotification();
  EXPECT_FALSE(called);
  timers.Cancel(id);  // again, without effect
}

TEST(TimersTest, AFunctionMaySetAndCancelTimers) {
  absl::Notification second;
  std::atomic<bool> called{false};
  Timers timers;
  const Timers::Id other = timers.Set(MonotonicTime::InfiniteFuture(), [&] { called = true; });
  timers.Set(MonotonicTime::Now(), [&] {
    timers.Cancel(other);
    timers.Set(MonotonicTime::Now(), [&] { second.Notify(); });
  });
  second.WaitForNotification();
  EXPECT_FALSE(called);
}

TEST(TimersTest, CallByMakesLaterTimesEarlier) {
  absl::Notification last;
  std::vector<int> called;
  Timers timers;
  timers.Set(MonotonicTime::InfiniteFuture(), [&] {
    called.push_back(2);
    last.Notify();
  });
  timers.Set(MonotonicTime::Now() + absl::Milliseconds(10), [&] { called.push_back(1); });
  timers.CallBy(MonotonicTime::Now() + absl::Milliseconds(30));
  last.WaitForNotification();
  EXPECT_THAT(called, ElementsAre(1, 2));
}

TEST(TimersTest, TheDestructorDropsFunctionsThatWereNotCalled) {
  const auto captured = std::make_shared<int>(0);
  {
    Timers timers;
    timers.Set(MonotonicTime::Now() + absl::Hours(1), [captured] { *captured = 1; });
  }
  EXPECT_EQ(*captured, 0);
  EXPECT_EQ(captured.use_count(), 1);
}

// Each function is either called once or taken back, from whatever thread.
TEST(TimersTest, ManyThreadsSetAndCancel) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int> called{0};
  const auto captured = std::make_shared<int>(0);
  {
    Timers timers;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          const Timers::Id id = timers.Set(MonotonicTime::Now() + absl::Microseconds(i % 50),
                                           [&called, captured] { ++called; });
          if (i % 2 == 0) timers.Cancel(id);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    absl::Notification last;
    timers.Set(MonotonicTime::Now() + absl::Milliseconds(1), [&] { last.Notify(); });
    last.WaitForNotification();
  }
  EXPECT_GE(called, kThreads * kEach / 2) << "those that were not cancelled";
  EXPECT_EQ(captured.use_count(), 1);
}

}  // namespace
}  // namespace longstream
