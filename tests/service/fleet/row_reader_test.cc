// The threads that read rows, with a store that waits for the test.
#include "service/fleet/row_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/service/wait_until.h"

namespace longstream::fleet {
namespace {

class HeldRows : public FleetStore {
 public:
  absl::StatusOr<ReplicaName> Join(const std::string& /*id*/) override { return ReplicaName(); }
  absl::StatusOr<RenewedLease> Renew(const Replica& /*self*/, absl::Duration /*ttl*/) override {
    return RenewedLease();
  }
  absl::Status Release(const ReplicaName& /*self*/) override { return absl::OkStatus(); }
  absl::StatusOr<OwnedRow> ReadRow(const SessionKey& session,
                                   const std::optional<TurnId>& /*turn*/) override {
    if (!began_.HasBeenNotified()) began_.Notify();
    go_on_.WaitForNotification();
    OwnedRow row;
    row.version = static_cast<int64_t>(session.id.low);
    return row;
  }

  absl::Notification began_;
  absl::Notification go_on_;
};

class RowReaderTest : public testing::Test {
 protected:
  void Read(uint64_t session, RowReader::For what) {
    reader_.Read({"", {0, session}}, std::nullopt, what,
                 [this](const absl::StatusOr<OwnedRow>& row) {
                   const absl::MutexLock lock(&mutex_);
                   answers_.push_back(row.ok() ? std::to_string(row->version) : "error");
                 });
  }
  std::vector<std::string> Answers() {
    const absl::MutexLock lock(&mutex_);
    return answers_;
  }

  absl::Mutex mutex_;
  std::vector<std::string> answers_ ABSL_GUARDED_BY(mutex_);
  HeldRows store_;
  RowReader reader_{&store_, 1, 2};
};

TEST_F(RowReaderTest, WorkComesBeforeChecksAndIsBounded) {
  Read(1, RowReader::For::kWork);
  store_.began_.WaitForNotification();
  for (uint64_t i = 2; i <= 4; ++i) Read(i, RowReader::For::kCheck);
  Read(5, RowReader::For::kWork);
  Read(6, RowReader::For::kWork);
  Read(7, RowReader::For::kWork);  // one too many
  EXPECT_EQ(Answers(), std::vector<std::string>{"error"});
  store_.go_on_.Notify();
  ASSERT_TRUE(WaitUntil([&] { return Answers().size() == 7; }));
  EXPECT_EQ(Answers(), (std::vector<std::string>{"error", "1", "5", "6", "2", "3", "4"}));
}

TEST_F(RowReaderTest, StopAnswersWhatWaits) {
  Read(1, RowReader::For::kWork);
  store_.began_.WaitForNotification();
  Read(2, RowReader::For::kWork);
  Read(3, RowReader::For::kCheck);
  store_.go_on_.Notify();
  reader_.Stop();
  EXPECT_EQ(Answers().size(), 3u);
  Read(4, RowReader::For::kWork);
  EXPECT_EQ(Answers().back(), "error");
}

}  // namespace
}  // namespace longstream::fleet
