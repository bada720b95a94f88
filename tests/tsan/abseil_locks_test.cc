// Under TSan: accesses guarded by Abseil's locks are no races, and unguarded accesses are.
//
// With the argument `race` the program makes a race on purpose. Its ctest entry passes only if TSan
// reports it.
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 500;

struct Counter {
  void Add() {
    absl::MutexLock lock(&mutex);
    ++count;
    changed.SignalAll();
  }

  absl::Mutex mutex;
  absl::CondVar changed;
  int count ABSL_GUARDED_BY(mutex) = 0;
};

// Runs `wait` while other threads add to the counter.
void RunBesideAdders(Counter& counter, const std::function<void()>& wait) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter] {
      for (int round = 0; round < kRounds; ++round) counter.Add();
    });
  }
  wait();
  for (std::thread& thread : threads) thread.join();
}

bool Half(Counter* counter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(counter->mutex) {
  return counter->count >= kThreads * kRounds / 2;
}

TEST(AbseilLocks, Lock) {
  Counter counter;
  RunBesideAdders(counter, [] {});
  absl::ReaderMutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.count, kThreads * kRounds);
}

TEST(AbseilLocks, TryLock) {
  Counter counter;
  RunBesideAdders(counter, [&counter] {
    for (int round = 0; round < kRounds; ++round) {
      if (counter.mutex.TryLock()) {
        ++counter.count;
        counter.mutex.Unlock();
      }
    }
  });
  absl::MutexLock lock(&counter.mutex);
  EXPECT_GE(counter.count, kThreads * kRounds);
}

TEST(AbseilLocks, Await) {
  Counter counter;
  RunBesideAdders(counter, [&counter] {
    const absl::Condition half(Half, &counter);
    absl::MutexLock lock(&counter.mutex);
    counter.mutex.Await(half);
    ++counter.count;
    EXPECT_TRUE(counter.mutex.AwaitWithTimeout(half, absl::Seconds(1)));
    ++counter.count;
    EXPECT_TRUE(counter.mutex.AwaitWithDeadline(half, absl::Now()));
    ++counter.count;
  });
}

TEST(AbseilLocks, LockWhen) {
  Counter counter;
  RunBesideAdders(counter, [&counter]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const absl::Condition half(Half, &counter);
    counter.mutex.LockWhen(half);
    ++counter.count;
    counter.mutex.Unlock();
    EXPECT_TRUE(counter.mutex.LockWhenWithTimeout(half, absl::Seconds(1)));
    ++counter.count;
    counter.mutex.Unlock();
    EXPECT_TRUE(counter.mutex.LockWhenWithDeadline(half, absl::Now()));
    ++counter.count;
    counter.mutex.Unlock();
  });
}

TEST(AbseilLocks, CondVar) {
  Counter counter;
  RunBesideAdders(counter, [&counter] {
    absl::MutexLock lock(&counter.mutex);
    while (counter.count < kRounds) counter.changed.Wait(&counter.mutex);
    ++counter.count;
    counter.changed.WaitWithTimeout(&counter.mutex, absl::Milliseconds(1));
    ++counter.count;
    counter.changed.WaitWithDeadline(&counter.mutex, absl::Now());
    ++counter.count;
  });
}

TEST(AbseilLocks, Notification) {
  int value = 0;
  absl::Notification written;
  std::thread writer([&] {
    value = 1;
    written.Notify();
  });
  written.WaitForNotification();
  EXPECT_EQ(value, 1);
  writer.join();
}

// Two threads write to the counter, and one of them does not take the lock.
void Race() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Counter counter;
  RunBesideAdders(counter, [&counter]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (int round = 0; round < kRounds; ++round) ++counter.count;
  });
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 2 && std::strcmp(argv[1], "race") == 0) {
    Race();
    return 0;
  }
  return RUN_ALL_TESTS();
}
