// Live work of several engines.
#include "service/engine/live_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace longstream {
namespace {

TEST(LiveWork, IsQuietWhenTheLastPartHasEnded) {
  const auto live = std::make_shared<LiveWork>();
  int ended = 0;
  const LiveWork::Listener listener(live, [&] { ++ended; });
  EXPECT_EQ(live->QuietSince(), MonotonicTime::InfinitePast());
  LiveWork::Part a = live->Begin();
  LiveWork::Part b = live->Begin();
  EXPECT_EQ(live->QuietSince(), MonotonicTime::InfiniteFuture());
  LiveWork::Part moved = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): a part that was moved from is none
  a.End();
  b.End();
  b.End();
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(live->QuietSince(), MonotonicTime::InfiniteFuture());
  const MonotonicTime before = MonotonicTime::Now();
  moved = LiveWork::Part();
  EXPECT_EQ(ended, 1);
  EXPECT_GE(live->QuietSince(), before);
  EXPECT_LE(live->QuietSince(), MonotonicTime::Now());
}

TEST(LiveWork, AListenerThatHasGoneIsNotCalled) {
  const auto live = std::make_shared<LiveWork>();
  int first = 0;
  int second = 0;
  auto gone = std::make_unique<LiveWork::Listener>(live, [&] { ++first; });
  const LiveWork::Listener stays(live, [&] { ++second; });
  live->Begin().End();
  gone.reset();
  live->Begin().End();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(LiveWork, CountsThePartsOfManyThreads) {
  const auto live = std::make_shared<LiveWork>();
  std::atomic<int> ended{0};
  const LiveWork::Listener listener(live, [&] { ++ended; });
  {
    const LiveWork::Part whole = live->Begin();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) {
          const LiveWork::Part part = live->Begin();
          EXPECT_EQ(live->QuietSince(), MonotonicTime::InfiniteFuture());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace longstream
