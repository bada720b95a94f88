// Work on long texts, off the threads that ask for it.
#include "service/server/text_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace longstream {
namespace {

constexpr size_t kLong = 1 << 20;

TEST(TextThreadsTest, ShortTextsAreDealtWithAtOnce) {
  TextThreads threads(1);
  absl::Notification release;
  threads.Run(kLong, [&] { release.WaitForNotification(); });
  std::thread::id ran_on;
  threads.Run(100, [&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  release.Notify();
}

TEST(TextThreadsTest, LongTextsDoNotHoldWhoeverBringsThem) {
  absl::Notification release;
  std::atomic<int> done = 0;
  {
    TextThreads threads(2);
    for (int i = 0; i < 5; ++i) {
      threads.Run(kLong, [&] {
        release.WaitForNotification();
        ++done;
      });
    }
    EXPECT_EQ(done.load(), 0);
    release.Notify();
  }
  EXPECT_EQ(done.load(), 5) << "what was queued at the end is done as well";
}

TEST(TextThreadsTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    TextThreads threads(1);
    for (int i = 0; i < 20; ++i) threads.Run(kLong, [&order, i] { order.push_back(i); });
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace longstream
