ts ctest entry expects the report./
// Under TSan: what Abseil's locks guard is no race, and what they do not guard is one.
ts ctest entry expects the report./
//
ts ctest entry expects the report./
// With the argument `race` the program makes a race on purpose.
ts ctest entry expects the report./
#include <cstring>
ts ctest entry expects the report./
#include <functional>
ts ctest entry expects the report./
#include <thread>
ts ctest entry expects the report./
#include <vector>
ts ctest entry expects the report./

ts ctest entry expects the report./
#include "absl/base/thread_annotations.h"
ts ctest entry expects the report./
#include "absl/synchronization/mutex.h"
ts ctest entry expects the report./
#include "absl/synchronization/notification.h"
ts ctest entry expects the report./
#include "absl/time/clock.h"
ts ctest entry expects the report./
#include "absl/time/time.h"
ts ctest entry expects the report./
#include "gtest/gtest.h"
ts ctest entry expects the report./

ts ctest entry expects the report./
namespace {
ts ctest entry expects the report./

ts ctest entry expects the report./
constexpr int kThreads = 4;
ts ctest entry expects the report./
constexpr int kRounds = 500;
ts ctest entry expects the report./

ts ctest entry expects the report./
struct Counter {
ts ctest entry expects the report./
  void Add() {
ts ctest entry expects the report./
    absl::MutexLock lock(&mutex);
ts ctest entry expects the report./
    ++count;
ts ctest entry expects the report./
    changed.SignalAll();
ts ctest entry expects the report./
  }
ts ctest entry expects the report./

ts ctest entry expects the report./
  absl::Mutex mutex;
ts ctest entry expects the report./
  absl::CondVar changed;
ts ctest entry expects the report./
  int count ABSL_GUARDED_BY(mutex) = 0;
ts ctest entry expects the report./
};
ts ctest entry expects the report./

ts ctest entry expects the report./
// Runs `wait` beside threads that add to the counter.
ts ctest entry expects the report./
void RunBesideAdders(Counter& counter, const std::function<void()>& wait) {
ts ctest entry expects the report./
  std::vector<std::thread> threads;
ts ctest entry expects the report./
  for (int i = 0; i < kThreads; ++i) {
ts ctest entry expects the report./
    threads.emplace_back([&counter] {
ts ctest entry expects the report./
      for (int round = 0; round < kRounds; ++round) counter.Add();
ts ctest entry expects the report./
    });
ts ctest entry expects the report./
  }
ts ctest entry expects the report./
  wait();
ts ctest entry expects the report./
  for (std::thread& thread : threads) thread.join();
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
bool Half(Counter* counter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(counter->mutex) {
ts ctest entry expects the report./
  return counter->count >= kThreads * kRounds / 2;
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
TEST(AbseilLocks, Lock) {
ts ctest entry expects the report./
  Counter counter;
ts ctest entry expects the report./
  RunBesideAdders(counter, [] {});
ts ctest entry expects the report./
  absl::ReaderMutexLock lock(&counter.mutex);
ts ctest entry expects the report./
  EXPECT_EQ(counter.count, kThreads * kRounds);
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
TEST(AbseilLocks, TryLock) {
ts ctest entry expects the report./
  Counter counter;
ts ctest entry expects the report./
  RunBesideAdders(counter, [&counter] {
ts ctest entry expects the report./
    for (int round = 0; round < kRounds; ++round) {
ts ctest entry expects the report./
      if (counter.mutex.TryLock()) {
ts ctest entry expects the report./
        ++counter.count;
ts ctest entry expects the report./
        counter.mutex.Unlock();
ts ctest entry expects the report./
      }
ts ctest entry expects the report./
    }
ts ctest entry expects the report./
  });
ts ctest entry expects the report./
  absl::MutexLock lock(&counter.mutex);
ts ctest entry expects the report./
  EXPECT_GE(counter.count, kThreads * kRounds);
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
TEST(AbseilLocks, Await) {
ts ctest entry expects the report./
  Counter counter;
ts ctest entry expects the report./
  RunBesideAdders(counter, [&counter] {
ts ctest entry expects the report./
    const absl::Condition half(Half, &counter);
ts ctest entry expects the report./
    absl::MutexLock lock(&counter.mutex);
ts ctest entry expects the report./
    counter.mutex.Await(half);
ts ctest entry expects the report./
    ++counter.count;
ts ctest entry expects the report./
    EXPECT_TRUE(counter.mutex.AwaitWithTimeout(half, absl::Seconds(1)));
ts ctest entry expects the report./
    ++counter.count;
ts ctest entry expects the report./
    EXPECT_TRUE(counter.mutex.AwaitWithDeadline(half, absl::Now()));
ts ctest entry expects the report./
    ++counter.count;
ts ctest entry expects the report./
  });
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
TEST(AbseilLocks, CondVar) {
ts ctest entry expects the report./
  Counter counter;
ts ctest entry expects the report./
  RunBesideAdders(counter, [&counter] {
ts ctest entry expects the report./
    absl::MutexLock lock(&counter.mutex);
ts ctest entry expects the report./
    while (counter.count < kRounds) counter.changed.Wait(&counter.mutex);
ts ctest entry expects the report./
    ++counter.count;
ts ctest entry expects the report./
    counter.changed.WaitWithTimeout(&counter.mutex, absl::Milliseconds(1));
ts ctest entry expects the report./
    ++counter.count;
ts ctest entry expects the report./
    counter.changed.WaitWithDeadline(&counter.mutex, absl::Now());
ts ctest entry expects the report./
    ++counter.count;
ts ctest entry expects the report./
  });
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
TEST(AbseilLocks, Notification) {
ts ctest entry expects the report./
  int value = 0;
ts ctest entry expects the report./
  absl::Notification written;
ts ctest entry expects the report./
  std::thread writer([&] {
ts ctest entry expects the report./
    value = 1;
ts ctest entry expects the report./
    written.Notify();
ts ctest entry expects the report./
  });
ts ctest entry expects the report./
  written.WaitForNotification();
ts ctest entry expects the report./
  EXPECT_EQ(value, 1);
ts ctest entry expects the report./
  writer.join();
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
// Two writers, one of which forgets the lock.
ts ctest entry expects the report./
void Race() ABSL_NO_THREAD_SAFETY_ANALYSIS {
ts ctest entry expects the report./
  Counter counter;
ts ctest entry expects the report./
  RunBesideAdders(counter, [&counter]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
ts ctest entry expects the report./
    for (int round = 0; round < kRounds; ++round) ++counter.count;
ts ctest entry expects the report./
  });
ts ctest entry expects the report./
}
ts ctest entry expects the report./

ts ctest entry expects the report./
}  // namespace
ts ctest entry expects the report./

ts ctest entry expects the report./
int main(int argc, char** argv) {
ts ctest entry expects the report./
  testing::InitGoogleTest(&argc, argv);
ts ctest entry expects the report./
  if (argc == 2 && std::strcmp(argv[1], "race") == 0) {
ts ctest entry expects the report./
    Race();
ts ctest entry expects the report./
    return 0;
ts ctest entry expects the report./
  }
ts ctest entry expects the report./
  return RUN_ALL_TESTS();
ts ctest entry expects the report./
}
