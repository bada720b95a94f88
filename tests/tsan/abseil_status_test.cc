// Under TSan: threads that share a status may read and drop their copies in any order.
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace {

TEST(AbseilStatus, AnotherThreadDropsTheLastCopy) {
  absl::Status ours = absl::UnavailableError(std::string(100, 'x'));
  absl::Status theirs = ours;
  // Relaxed, so that nothing but the count orders the read below before the free.
  std::atomic<bool> dropped = false;
  std::thread thread([&dropped, &theirs] {
    while (!dropped.load(std::memory_order_relaxed)) std::this_thread::yield();
    theirs = absl::OkStatus();
  });
  EXPECT_EQ(std::string(ours.message()).size(), 100u);
  ours = absl::OkStatus();
  dropped.store(true, std::memory_order_relaxed);
  thread.join();
}

}  // namespace
