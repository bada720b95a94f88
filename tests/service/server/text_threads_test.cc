// Long texts are read on other threads than the one that submits them.
#include "service/server/text_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace longstream {
namespace {

constexpr size_t kLong = 1 << 20;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

TEST(TextThreadsTest, ShortTextsAreDealtWithAtOnce) {
  TextThreads threads(1, kNoLimit);
  absl::Notification release;
  EXPECT_TRUE(threads.Run(kLong, kLong, [&] { release.WaitForNotification(); }).ok());
  std::thread::id ran_on;
  EXPECT_TRUE(threads.Run(100, 100, [&] { ran_on = std::this_thread::get_id(); }).ok());
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  release.Notify();
}

TEST(TextThreadsTest, LongTextsDoNotHoldWhoeverBringsThem) {
  absl::Notification release;
  std::atomic<int> done = 0;
  {
    TextThreads threads(2, kNoLimit);
    for (int i = 0; i < 5; ++i) {
      const absl::Status taken = threads.Run(kLong, kLong, [&] {
        release.WaitForNotification();
        ++done;
      });
      EXPECT_TRUE(taken.ok()) << taken;
    }
    EXPECT_EQ(done.load(), 0);
    release.Notify();
  }
  EXPECT_EQ(done.load(), 5) << "the destructor waits for queued texts";
}

TEST(TextThreadsTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    TextThreads threads(1, kNoLimit);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(threads.Run(kLong, kLong, [&order, i] { order.push_back(i); }).ok());
    }
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

// The limit does not count a text that is being read. One text may wait even if it is larger than
// the limit.
TEST(TextThreadsTest, WhatWaitsIsBounded) {
  constexpr uint64_t kLimit = 3 * kLong;
  absl::Notification reads;
  absl::Notification release;
  std::atomic<int> done = 0;
  {
    TextThreads threads(1, kLimit);
    const auto run = [&](uint64_t held) { return threads.Run(kLong, held, [&] { ++done; }); };
    const auto hold = [&] {
      reads.Notify();
      release.WaitForNotification();
    };
    ASSERT_TRUE(threads.Run(kLong, kLong, hold).ok());
    reads.WaitForNotification();
    EXPECT_TRUE(run(2 * kLimit).ok()) << "no other text waits";
    const absl::Status full = run(kLong);
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(full.message(),
              "input: 1052672 bytes, but long texts of 6295552 bytes already wait to be read; the "
              "limit is 3145728");
    EXPECT_TRUE(threads.Run(100, 100, [&] { ++done; }).ok()) << "a short text needs no place";
    release.Notify();
  }
  EXPECT_EQ(done.load(), 2);
}

}  // namespace
}  // namespace longstream
