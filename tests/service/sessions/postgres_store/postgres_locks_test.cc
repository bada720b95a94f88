// A server that stops, or a lock that is held for long, does not stop the other servers.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/postgres/locks.h"
#include "service/sessions/store/postgres/postgres_writer.h"
#include "tests/service/sessions/postgres_store/postgres_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream::store {
namespace {

using PostgresLocksTest = PostgresStoreTest;

MonotonicTime Later() { return MonotonicTime::Now() + kLong; }

// The writer has locked all, has its answer, and does nothing more, as if its process were stopped.
TEST_F(PostgresLocksTest, AServerThatStopsInATransactionLosesItsLocks) {
  const auto store = Open(absl::Seconds(60));
  auto connection = Connection::Open(
      {.url = Server().Url(database_), .password = "", .timeout = absl::Seconds(2)});
  ASSERT_TRUE(connection.ok()) << connection.status();
  PostgresWriter stopped(std::string(16, 'w'));
  stopped.SetConnection(*std::move(connection));
  ASSERT_TRUE(stopped.Begin(1, StoreLocks::kAll, Later()).ok());
  {
    const auto row = stopped.Use("SELECT version FROM store");
    ASSERT_TRUE(row.ok());
    ASSERT_EQ((*row)->Step(), Stepped::kRow);
  }
  const auto opened = ApplyOne(*store, OpenSession{NewSession(7)});
  EXPECT_TRUE(opened.ok()) << opened.status();
  EXPECT_NE(stopped.Commit(), PostgresWriter::Outcome::kCommitted);
}

// Somebody holds the lock that changes of the log share.
class HeldLock {
 public:
  explicit HeldLock(const std::string& url) {
    auto connection = Connection::Open({.url = url, .password = "", .timeout = kLong});
    EXPECT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
    Execute("pg_advisory_lock_shared");
  }
  void Release() { Execute("pg_advisory_unlock_shared"); }

 private:
  void Execute(const char* function) {
    const absl::Status status = connection_->Execute(
        absl::StrCat("SELECT ", function, "(", kTurnsLock, ")"), Later(), "test");
    EXPECT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<Connection> connection_;
};

// Collection needs the lock alone, and the commits of all servers go on meanwhile.
TEST_F(PostgresLocksTest, CommitsDoNotWaitBehindACollectionThatWaits) {
  const auto store = Open(), other = Open();
  HeldLock lock(Server().Url(database_));
  std::atomic<bool> is_collected{false};
  std::thread collection([&] {
    const auto collected = store->Collect(At(0));
    EXPECT_TRUE(collected.ok()) << collected.status();
    is_collected = true;
  });
  for (uint64_t id = 1; id < 3; ++id) {
    EXPECT_TRUE(WaitUntil([&] {
      return Sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") !=
             "0";
    }));
    EXPECT_TRUE(ApplyOne(*other, OpenSession{NewSession(10 + id)}).ok());
    EXPECT_TRUE(ApplyOne(*store, OpenSession{NewSession(20 + id)}).ok());
    EXPECT_FALSE(is_collected);
  }
  EXPECT_EQ(store->Health().state, StoreState::kOk);
  lock.Release();
  collection.join();
}

// Every server looks each minute.
TEST_F(PostgresLocksTest, ToFindNoSegmentsToCollectTakesNoLock) {
  const auto store = Open(absl::Seconds(2));
  ASSERT_TRUE(ApplyOne(*store, OpenSession{NewSession(7)}).ok());
  const TurnNumber turn = CommitOne(*store, key_, 1, 10);
  ASSERT_TRUE(AddOne(*store, turn, 1, {}, {{NewFixed(1, 10), 1000}}).ok());
  HeldLock lock(Server().Url(database_));
  const auto collected = store->CollectSegments({.now = At(9), .max_bytes = 10'000});
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_EQ(*collected, 0u);
}

}  // namespace
}  // namespace longstream::store
