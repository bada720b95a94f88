// The metric of sessions that are in the store and not in memory.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/sessions/store/held_store.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

class StoredCountTest : public testing::Test {
 protected:
  StoredCountTest() {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
    Start();
  }

  // Ends the manager, with the sessions in memory, and makes another one with the same store.
  void Restart() {
    sessions_.reset();
    Start();
  }
  void Start() {
    SessionManager::Options options;
    options.store = &store_;
    options.commits = &commits_;
    options.commit_timeout = absl::Hours(1);
    options.look_period = absl::Milliseconds(1);
    sessions_ = std::make_unique<SessionManager>(&models_, options);
  }

  SessionId Open(Durability durability = Durability::kDefault) {
    const auto session = WaitForSession([&](SessionManager::Opened opened) {
      sessions_->OpenSession("", "m", std::nullopt, std::nullopt, std::move(opened),
                             {.durability = durability});
    });
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? session->id : SessionId();
  }
  double Stored() {
    return MetricValue(*model_.registry(), "longstream_sessions", {{"state", "stored"}});
  }
  void ExpectStored(double stored) {
    EXPECT_EQ(
        WaitForMetric(*model_.registry(), stored, "longstream_sessions", {{"state", "stored"}}),
        stored);
  }

  const TemporaryDirectory directory_;
  MinimalModel model_;
  ModelRegistry models_{
      {model_.plugins(), model_.host(), model_.registry(), {}}, {model_.Source()}, nullptr};
  store::HeldStore store_{*store::SqliteStore::Open(directory_.string() + "/store", {})};
  store::CommitQueue commits_{&store_, store::CommitQueue::Options{}};
  std::unique_ptr<SessionManager> sessions_;
};

TEST_F(StoredCountTest, SessionsInMemoryAreNotCounted) {
  Open();
  const SessionId used = Open(), closed = Open();
  Open(Durability::kMemory);
  Restart();
  ExpectStored(3);
  Open();                                           // it is in the store and in memory
  ASSERT_TRUE(sessions_->TurnOf({"", used}).ok());  // reads it
  ExpectStored(2);
  ASSERT_TRUE(CloseAndWait(*sessions_, {"", closed}).ok());
  ExpectStored(1);
}

// A scrape does not read the store.
TEST_F(StoredCountTest, AStoreThatHangsOrFailsLeavesTheLastCount) {
  const SessionId session = Open();
  Restart();
  ExpectStored(1);
  store_.FailReads(absl::UnavailableError("the store fails"));
  absl::SleepFor(absl::Milliseconds(1500));  // longer than until the next count
  EXPECT_EQ(Stored(), 1);
  store_.FailReads(absl::OkStatus());
  store_.Hold();
  ASSERT_TRUE(WaitUntil([&] { return store_.waiting() == 1; }));
  EXPECT_EQ(Stored(), 1);
  store_.Release();
  ASSERT_TRUE(CloseAndWait(*sessions_, {"", session}).ok());
  ExpectStored(0);
}

}  // namespace
}  // namespace longstream
