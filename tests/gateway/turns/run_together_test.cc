#include "gateway/turns/run_together.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace longstream::gateway {
namespace {

// Gives at most `most` threads.
class Threads {
 public:
  explicit Threads(size_t most) : most_(most) {}
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }

  StartThread Start() {
    return [this](std::function<void()> work) {
      if (threads_.size() == most_) return false;
      threads_.emplace_back(std::move(work));
      return true;
    };
  }
  size_t started() const { return threads_.size(); }

 private:
  const size_t most_;
  std::vector<std::thread> threads_;
};

void DoNothing() {}

TEST(RunTogetherTest, MakesEachCallOnce) {
  for (const size_t most : {0u, 1u, 3u, 50u}) {
    Threads threads(most);
    std::mutex mutex;
    std::multiset<size_t> calls;
    const auto run = [&](size_t i) {
      const std::lock_guard<std::mutex> lock(mutex);
      calls.insert(i);
    };
    RunTogether(20, threads.Start(), run, DoNothing);
    EXPECT_EQ(calls.size(), 20u);
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(calls.count(i), 1u);
    EXPECT_EQ(threads.started(), std::min<size_t>(most, 19)) << "this thread takes part";
  }
}

TEST(RunTogetherTest, OneCallAndNoneNeedNoThread) {
  Threads threads(5);
  int calls = 0;
  RunTogether(
      0, threads.Start(), [&](size_t) { ++calls; }, DoNothing);
  RunTogether(
      1, threads.Start(), [&](size_t) { ++calls; }, DoNothing);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(threads.started(), 0u);
}

// Each call waits until all have begun.
TEST(RunTogetherTest, CallsRunAtOnce) {
  constexpr int kCalls = 8;
  Threads threads(kCalls - 1);
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
  const auto run = [&](size_t) {
    std::unique_lock<std::mutex> lock(mutex);
    ++begun;
    changed.notify_all();
    changed.wait(lock, [&] { return begun == kCalls; });
  };
  RunTogether(kCalls, threads.Start(), run, DoNothing);
  EXPECT_EQ(begun, kCalls);
}

// The call that fails stops the one that waits; none begins after it, and its error is thrown.
TEST(RunTogetherTest, AnErrorStopsTheOthers) {
  Threads threads(1);
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  int stops = 0;
  std::atomic<int> calls = 0;
  const auto run = [&](size_t i) {
    ++calls;
    if (i == 1) throw std::runtime_error("the first error");
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return stopped; });
    throw std::runtime_error("stopped");
  };
  const auto stop = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    stopped = true;
    ++stops;
    changed.notify_all();
  };
  std::string error;
  try {
    RunTogether(10, threads.Start(), run, stop);
  } catch (const std::runtime_error& thrown) {
    error = thrown.what();
  }
  EXPECT_EQ(error, "the first error");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(stops, 1);
}

// There is room for two calls at once.
TEST(RunTogetherTest, CallsWithoutRoomAreMadeAgain) {
  for (const size_t most : {0u, 1u, 7u}) {
    Threads threads(most);
    std::mutex mutex;
    int running = 0;
    std::multiset<size_t> done;
    const auto run = [&](size_t i) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (running == 2) {
          throw NoRoom{std::make_exception_ptr(std::runtime_error("no room"))};
        }
        ++running;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const std::lock_guard<std::mutex> lock(mutex);
      --running;
      done.insert(i);
    };
    RunTogether(20, threads.Start(), run, DoNothing);
    EXPECT_EQ(done.size(), 20u);
    EXPECT_EQ(std::set<size_t>(done.begin(), done.end()).size(), 20u);
  }
}

// There is room only for a call that comes later, and then for the others.
TEST(RunTogetherTest, CallsWithRoomGoFirst) {
  for (const size_t most : {0u, 1u, 7u}) {
    Threads threads(most);
    std::atomic<bool> has_room = false;
    std::atomic<int> calls = 0;
    const auto run = [&](size_t i) {
      if (i == 6) has_room = true;
      if (!has_room) throw NoRoom{std::make_exception_ptr(std::runtime_error("no room"))};
      ++calls;
    };
    RunTogether(8, threads.Start(), run, DoNothing);
    EXPECT_EQ(calls, 8);
  }
}

// Two calls are in each other's way, and each of them has room alone.
TEST(RunTogetherTest, CallsThatLackRoomTogetherRunAlone) {
  Threads threads(1);
  std::mutex mutex;
  std::condition_variable changed;
  int tries = 0;
  std::multiset<size_t> done;
  const auto run = [&](size_t i) {
    std::unique_lock<std::mutex> lock(mutex);
    if (++tries <= 2) {
      changed.notify_all();
      changed.wait(lock, [&] { return tries >= 2; });
      throw NoRoom{std::make_exception_ptr(std::runtime_error("no room"))};
    }
    done.insert(i);
  };
  RunTogether(2, threads.Start(), run, DoNothing);
  EXPECT_EQ(done, (std::multiset<size_t>{0, 1}));
}

TEST(RunTogetherTest, ACallForWhichThereIsNeverRoomFails) {
  for (const size_t most : {0u, 7u}) {
    Threads threads(most);
    std::atomic<int> stops = 0;
    const auto run = [](size_t i) {
      if (i == 3) throw NoRoom{std::make_exception_ptr(std::runtime_error("no room"))};
    };
    EXPECT_THROW(RunTogether(8, threads.Start(), run, [&] { ++stops; }), std::runtime_error);
    EXPECT_EQ(stops, 1);
  }
}

TEST(RunTogetherTest, AThreadThatCannotBeginIsNotNeeded) {
  Threads threads(5);
  const StartThread start = [&threads, others = threads.Start()](std::function<void()> work) {
    if (threads.started() == 2) throw std::bad_alloc();
    return others(std::move(work));
  };
  std::atomic<int> calls = 0;
  RunTogether(
      20, start, [&](size_t) { ++calls; }, DoNothing);
  EXPECT_EQ(calls, 20);
}

}  // namespace
}  // namespace longstream::gateway
