// Calls that want the same session wait for each other, but not for long.
#include "service/serving/reads/alone_sessions.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

const SessionKey kKey{"", {1, 2}};
const SessionKey kOther{"", {1, 3}};

TEST(AloneSessionsTest, OneCallHasTheSessionAtATime) {
  AloneSessions alone(absl::Hours(1));
  std::shared_ptr<void> first = alone.Try(kKey);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(alone.Try(kKey), nullptr);
  EXPECT_NE(alone.Try(kOther), nullptr);
  absl::Notification has_it;
  std::thread second([&] {
    const absl::StatusOr<std::shared_ptr<void>> place = alone.Wait(kKey);
    EXPECT_TRUE(place.ok()) << place.status();
    has_it.Notify();
  });
  EXPECT_FALSE(has_it.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  first = nullptr;
  second.join();
  EXPECT_NE(alone.Try(kKey), nullptr);
}

// A place of a call that waits for an engine, which may hang. If each call for its session waited
// anew, they would keep all threads that read the store.
TEST(AloneSessionsTest, CallsWaitInAllNoLongerThanThePatience) {
  constexpr absl::Duration kPatience = absl::Milliseconds(100);
  AloneSessions alone(kPatience);
  const std::shared_ptr<void> hangs = alone.Try(kKey);
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Status status = alone.Wait(kKey).status();
    ASSERT_TRUE(absl::IsUnavailable(status)) << status;
  }
  EXPECT_GE(absl::Now() - begin, kPatience / 2);
  EXPECT_LT(absl::Now() - begin, kPatience * 100);
  EXPECT_TRUE(alone.Wait(kOther).ok());
}

}  // namespace
}  // namespace longstream
