// Calls for sessions that leave the memory, or are closed, at the same moment.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "tests/service/serving/hanging_store.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using LeavingSessionsTest = HangingStoreTest;

TEST_F(LeavingSessionsTest, ACallFindsASessionWhoseVersionIsUnloadedWhenItWasRestored) {
  ASSERT_TRUE(Open().ok());
  int restores = 0;
  bool ends = false;
  Restart([&](const std::shared_ptr<Session>&) {
    ++restores;
    if (std::exchange(ends, false)) EndSessions();
  });
  ends = true;
  EXPECT_TRUE(Load(kId).ok());
  EXPECT_EQ(restores, 2);
  EndSessions();
  ends = true;
  const absl::StatusOr<SessionView> fork = Fork();
  EXPECT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(restores, 4);
}

TEST_F(LeavingSessionsTest, ACallFindsASessionWhoseVersionIsUnloadedWhenItWasFound) {
  ASSERT_TRUE(Open().ok());
  std::atomic<bool> ends{false};
  Restart(nullptr, [&](const std::shared_ptr<Session>&) {
    if (ends.exchange(false)) EndSessions();
  });
  ASSERT_TRUE(Load(kId).ok());
  ends = true;
  EXPECT_TRUE(Load(kId).ok());
  EXPECT_FALSE(ends);
}

// Expiry closes a session first, and then takes it out of the table.
TEST_F(LeavingSessionsTest, ACloseOfASessionThatExpiresClosesItInTheStore) {
  ASSERT_TRUE(Open().ok());
  std::shared_ptr<Session> leaving;
  Restart([&](const std::shared_ptr<Session>& session) { leaving = session; });
  ASSERT_TRUE(Load(kId).ok());
  ASSERT_NE(leaving, nullptr);
  leaving->Close();
  absl::Status status;
  absl::Notification closed;
  sessions().CloseSession({"", kId}, [&](const absl::StatusOr<uint64_t>& position) {
    status = position.status();
    closed.Notify();
  });
  EndSessions();
  closed.WaitForNotification();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Show(kId).status().code(), absl::StatusCode::kNotFound);
}

// The store has the session until the disk works again.
TEST_F(LeavingSessionsTest, ASessionThatIsBeingClosedIsNeitherShownNorExported) {
  ASSERT_TRUE(Open().ok());
  Hang();
  absl::Notification closed;
  sessions().CloseSession({"", kId}, [&](const absl::StatusOr<uint64_t>&) { closed.Notify(); });
  EXPECT_EQ(Show(kId).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Export().code(), absl::StatusCode::kNotFound);
  GoOn();
  closed.WaitForNotification();
}

// The engine refuses the first session, because it is closed, when the store has it.
TEST_F(LeavingSessionsTest, ARepeatOfAnOpenThatFailsMakesANewSession) {
  std::shared_ptr<Session> made;
  Restart(nullptr, [&](const std::shared_ptr<Session>& session) { made = session; });
  Hang();
  absl::BlockingCounter answered(2);
  absl::StatusOr<SessionView> opened[2];
  const auto open = [&](absl::StatusOr<SessionView>* to) {
    sessions().OpenSession("", "m", kId, std::nullopt,
                           [&answered, to](absl::StatusOr<SessionView> session) {
                             *to = std::move(session);
                             answered.DecrementCount();
                           });
  };
  open(&opened[0]);
  // Reads of a session come one after the other, so the open has come to its wait for the disk.
  EXPECT_TRUE(Load(kId).ok());
  ASSERT_NE(made, nullptr);
  std::exchange(made, nullptr)->Close();
  open(&opened[1]);
  EXPECT_EQ(Load(kId).code(), absl::StatusCode::kNotFound);
  GoOn();
  answered.Wait();
  EXPECT_EQ(opened[0].status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(opened[1].ok()) << opened[1].status();
  EXPECT_TRUE(Open(kFork).ok());  // all changes before it are made
  EXPECT_TRUE(Load(kId).ok());
}

}  // namespace
}  // namespace longstream
