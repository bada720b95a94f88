// Tests of the store in one directory: its lock, its versions, and faults of the disk.
#include "service/sessions/store/sqlite/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "service/errors/retry_after.h"
#include "service/sessions/store/sql/schema.h"
#include "service/sessions/store/sqlite/database.h"
#include "service/sessions/store/sqlite/store_files.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class SqliteStoreTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& vfs = "") {
    return SqliteStore::Open(directory_.string() + "/store", {.vfs = vfs});
  }
  // Runs a statement on the file while no store is open.
  void Sql(const char* sql) {
    const auto database = SqliteDatabase::Open(directory_.string() + "/store/log.db", "");
    ASSERT_TRUE(database.ok()) << database.status();
    const absl::Status status = (*database)->Execute(sql);
    ASSERT_TRUE(status.ok()) << status;
  }

  const TemporaryDirectory directory_;
  const SessionKey key_ = NewSession(7).key;
};

TEST_F(SqliteStoreTest, OneProcessOpensItAndOnlyItsUserReadsIt) {
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const auto second = Open();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr("another process uses " + directory_.string()));
  struct stat directory {};
  ASSERT_EQ(stat((directory_.string() + "/store").c_str(), &directory), 0);
  EXPECT_EQ(directory.st_mode & 0777, 0700u);
}

TEST_F(SqliteStoreTest, AFileInPlaceOfTheDirectoryIsAnError) {
  const std::string file = directory_.Write("file", "text");
  const auto store = SqliteStore::Open(file, {});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(store.status().message(), HasSubstr(file + "/LOCK: Not a directory"));
}

TEST_F(SqliteStoreTest, AMissingOrEmptyLogIsDataLoss) {
  ASSERT_TRUE(ApplyOne(**Open(), OpenSession{NewSession(7)}).ok());
  std::filesystem::resize_file(directory_.path() / "store" / "log.db", 0);
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(directory_.path() / "store" / "log.db");
  const auto store = Open();
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(store.status().message(), HasSubstr("/store/log.db is missing or empty"));
}

// A later program has one step more. The rows of before stay, and a step that fails undoes all.
TEST_F(SqliteStoreTest, AnOlderStoreGetsTheNewTables) {
  ASSERT_TRUE(ApplyOne(**Open(), OpenSession{NewSession(7)}).ok());
  std::vector<const char*> steps(SchemaSteps().begin(), SchemaSteps().end());
  const auto migrate = [&] {
    const auto database = SqliteDatabase::Open(directory_.string() + "/store/log.db", "");
    return Migrate(**database, steps);
  };
  steps.push_back("ALTER TABLE sessions ADD COLUMN later TEXT; CREATE TABLE wrong(;");
  EXPECT_FALSE(migrate().ok());
  steps.back() = "ALTER TABLE sessions ADD COLUMN later TEXT";
  EXPECT_TRUE(migrate().ok()) << "the column is not there yet";
  EXPECT_TRUE(migrate().ok()) << "nothing to do";
  EXPECT_TRUE((*Open())->Session(key_).ok()) << "this program may open it";
  Sql("UPDATE store SET min_reader = version");
  EXPECT_TRUE(migrate().ok());
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SqliteStoreTest, AFolderThatCannotBeMadeIsAnError) {
  const auto store = SqliteStore::Open("/proc/store", {});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(store.status().message(), HasSubstr("/proc/store"));
}

TEST_F(SqliteStoreTest, AStoreOfANewerProgramIsRefusedIfItSaysSo) {
  ASSERT_TRUE(Open().ok());
  Sql("UPDATE store SET version = 9");
  EXPECT_TRUE(Open().ok()) << "newer, but this program may use it";
  Sql("UPDATE store SET min_reader = 9");
  const auto refused = Open();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr("min_reader is 9"));
  EXPECT_THAT(refused.status().message(), HasSubstr(directory_.string()));
  EXPECT_THAT(refused.status().message(), HasSubstr("this program has version 6"));
}

TEST_F(SqliteStoreTest, ADirectoryHasNoFleet) {
  const auto store = Open();
  ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
  for (const OwnerCondition condition : {OwnerCondition::kClaim, OwnerCondition::kTransfer}) {
    const auto refused = ApplyOne(**store, ChangeOwner{{key_, 1, 1}, "replica-2/1", condition});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.status().message(), HasSubstr("no fleet"));
  }
  EXPECT_EQ((*store)->Session(key_)->owner, NewSession(7).owner);
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsDataLoss) {
  ASSERT_TRUE(Open().ok());
  std::ofstream(directory_.path() / "store" / "log.db") << std::string(5000, 'x');
  const absl::Status status = Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("PRAGMA busy_timeout = 10000...: file is not a database"))
      << "the message does not repeat all statements";
}

TEST_F(SqliteStoreTest, AChangedRowIsDataLossAndTheOthersServe) {
  {
    const auto store = Open();
    for (const uint64_t id : {7u, 8u}) {
      ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(id)}).ok());
      ASSERT_NE(CommitOne(**store, NewSession(id).key, 1, 10), kNoTurn);
    }
    EXPECT_THAT(*(*store)->Check(10), IsEmpty());
  }
  Sql("UPDATE sessions SET position = 11 WHERE number = 1");
  Sql("UPDATE turns SET result = x'00' WHERE number = 2");
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  const auto session = (*store)->Session(key_);
  EXPECT_EQ(session.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(session.status().message(), HasSubstr(key_.id.ToString()));
  EXPECT_EQ(ApplyOne(**store, MoveHead{{key_, 1, 3}, kNoTurn, At(1)}).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ((*store)->Turn(2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE((*store)->Session(NewSession(8).key).ok());
  EXPECT_EQ((*store)->Sessions("", {}, 1, "")->size(), 1u) << "damaged rows do not count";
  EXPECT_EQ((*store)->Check(10)->size(), 3u) << "the sum with the turn's length is wrong, too";
  EXPECT_EQ((*store)->Check(1)->size(), 1u);
}

TEST_F(SqliteStoreTest, AFullDiskRefusesTheLargeChangeOnly) {
  FaultyDisk disk;
  const auto store = Open(disk.name());
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
  disk.SetFull(true);
  const auto refused =
      ApplyOne(**store, StartTurn{{key_, 1, 1}, NewTurn(1, std::string(1 << 20, 'x'))});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_EQ((*store)->Session(key_)->version, 1);
  EXPECT_EQ((*store)->Health().state, StoreState::kFull);
  EXPECT_THAT((*store)->Health().reason, HasSubstr("full"));
  EXPECT_EQ(ApplyOne(**store, CloseSession{NewSession(8).key, {}, At(3)}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ((*store)->Health().state, StoreState::kFull)
      << "a change that is refused needs no room";
  disk.SetFull(false);
  EXPECT_TRUE(ApplyOne(**store, StartTurn{{key_, 1, 1}, NewTurn(1)}).ok())
      << "the store takes changes again";
  EXPECT_EQ((*store)->Health().state, StoreState::kOk);
}

TEST_F(SqliteStoreTest, AfterAFailedFsyncItTakesNoChangesUntilItIsOpenedAgain) {
  FaultyDisk disk;
  auto store = Open(disk.name());
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
  disk.SetFsyncFails("");
  const auto unknown = ApplyOne(**store, OpenSession{NewSession(8)});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnknown) << unknown.status();
  EXPECT_EQ(RetryAfterOf(unknown.status()), absl::InfiniteDuration());
  disk.SetFsyncFails(std::nullopt);
  const auto refused = ApplyOne(**store, OpenSession{NewSession(9)});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.status().message(), HasSubstr("until the server is started again"));
  EXPECT_EQ(RetryAfterOf(refused.status()), absl::InfiniteDuration()) << "that does not pass";
  EXPECT_EQ((*store)->Collect(At(0)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*store)->Health().state, StoreState::kReadOnly);
  EXPECT_TRUE((*store)->Session(key_).ok()) << "reads go on";
  store->reset();
  store = Open(disk.name());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Health().state, StoreState::kOk);
  EXPECT_TRUE(ApplyOne(**store, OpenSession{NewSession(9)}).ok());
}

// After the failed fsync the system still reads bytes that are not on the disk.
TEST_F(SqliteStoreTest, WhatIsAcknowledgedAfterAFailedFsyncSurvivesALossOfPower) {
  FaultyDisk disk;
  std::mt19937_64 random(1);
  {
    const auto store = Open(disk.name());
    ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
    disk.SetFsyncFails("-wal");
    EXPECT_EQ(ApplyOne(**store, OpenSession{NewSession(8)}).status().code(),
              absl::StatusCode::kUnknown);
    disk.SetFsyncFails(std::nullopt);
  }
  {
    const auto store = Open(disk.name());
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Session(NewSession(8).key).ok()) << "it is in the log that is read";
    ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(9)}).ok());
    disk.FailAfter(0);  // the power fails before the store is closed
  }
  disk.LosePower(random);
  const auto store = Open(disk.name());
  ASSERT_TRUE(store.ok()) << store.status();
  for (const uint64_t id : {7u, 8u, 9u}) {
    EXPECT_TRUE((*store)->Session(NewSession(id).key).ok()) << id;
  }
}

// The next opening copies such bytes from the log into the file. If the power fails meanwhile, the
// log must have them for sure, or the file keeps a part of a transaction.
TEST_F(SqliteStoreTest, ALossOfPowerWhileItOpensAfterAFailedFsyncLeavesNoHalfTransaction) {
  std::mt19937_64 random(1);
  for (uint64_t after = 0; after < 60; ++after) {
    FaultyDisk disk;
    const TemporaryDirectory directory;
    const auto open = [&] { return SqliteStore::Open(directory.string(), {.vfs = disk.name()}); };
    {
      const auto store = open();
      ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
      ASSERT_NE(CommitOne(**store, key_, 1, 10), kNoTurn);
    }
    {
      const auto store = open();
      // Otherwise already the fsync of the log's header fails, before the log has a transaction.
      ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(8)}).ok());
      disk.SetFsyncFails("-wal");
      StartTurn start;
      start.fence = {key_, 1, 3};
      start.turn = NewTurn(2, std::string(100'000, 'x'));
      EXPECT_TRUE(absl::IsUnknown(ApplyOne(**store, start).status()));
      disk.SetFsyncFails(std::nullopt);
    }
    disk.FailAfter(after);
    open().IgnoreError();
    disk.LosePower(random);
    const auto store = open();
    ASSERT_TRUE(store.ok()) << "after " << after << ": " << store.status();
    EXPECT_THAT(*(*store)->Check(10), IsEmpty()) << "after " << after;
    const auto session = (*store)->Session(key_);
    ASSERT_TRUE(session.ok()) << "after " << after << ": " << session.status();
    const bool is_made = session->version == 4;
    EXPECT_EQ((*store)->Turn(key_, NewTurn(2).id).ok(), is_made);
  }
}

TEST_F(SqliteStoreTest, AFailedCheckpointEndsChangesToo) {
  FaultyDisk disk;
  const auto store = Open(disk.name());
  ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
  disk.SetFsyncFails("log.db");
  const auto acknowledged =
      ApplyOne(**store, StartTurn{{key_, 1, 1}, NewTurn(1, std::string(5 << 20, 'x'))});
  EXPECT_TRUE(acknowledged.ok()) << "it is durable in the log: " << acknowledged.status();
  EXPECT_EQ((*store)->Health().state, StoreState::kReadOnly);
  const auto refused = ApplyOne(**store, OpenSession{NewSession(8)});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.status().message(), HasSubstr("copy the log into the file"));
}

// Sessions 1 to 4 are written one after the other; then the power fails. Returns how long the log
// was before the last of them.
size_t WriteLog(FaultyDisk& disk, const std::string& directory) {
  size_t before_last = 0;
  const auto store = SqliteStore::Open(directory, {.vfs = disk.name()});
  for (uint64_t id = 1; id <= 4; ++id) {
    before_last = disk.Contents("-wal").size();
    EXPECT_TRUE(ApplyOne(**store, OpenSession{NewSession(id)}).ok());
  }
  disk.FailAfter(0);
  return before_last;
}

// A byte has changed in the log that is not yet in the file. SQLite alone would drop the rest.
// The pages of a connection are on the disk until it has read them.
TEST_F(SqliteStoreTest, ReadsThatHangDoNotStopOthers) {
  static thread_local bool hangs = false;
  FaultyDisk disk;
  {
    const auto made = Open(disk.name());
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE(ApplyOne(**made, OpenSession{NewSession(7)}).ok());
  }
  const auto store = Open(disk.name());
  ASSERT_TRUE(store.ok()) << store.status();
  std::atomic<int> num_hanging{0};
  absl::Notification go_on;
  disk.SetBeforeRead([&] {
    if (!hangs) return;
    ++num_hanging;
    go_on.WaitForNotification();
    hangs = false;
  });
  std::vector<std::thread> readers;
  const auto read = [&](bool slowly, std::atomic<bool>* done) {
    readers.emplace_back([&, slowly, done] {
      hangs = slowly;
      EXPECT_TRUE((*store)->Session(key_).ok());
      if (done != nullptr) *done = true;
    });
  };
  for (int i = 1; i < SqliteStore::kNumReaders; ++i) read(/*slowly=*/true, nullptr);
  EXPECT_TRUE(WaitUntil([&] { return num_hanging == SqliteStore::kNumReaders - 1; }));
  std::atomic<bool> one{false}, behind_all{false};
  read(/*slowly=*/false, &one);
  EXPECT_TRUE(WaitUntil([&] { return one.load(); }));
  EXPECT_TRUE(ApplyOne(**store, OpenSession{NewSession(8)}).ok()) << "changes go on";
  // With one more, a read waits for a connection.
  read(/*slowly=*/true, nullptr);
  EXPECT_TRUE(WaitUntil([&] { return num_hanging == SqliteStore::kNumReaders; }));
  read(/*slowly=*/false, &behind_all);
  go_on.Notify();
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(behind_all);
}

TEST_F(SqliteStoreTest, AFlippedByteOfTheLogIsDataLoss) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 150; ++round) {
    FaultyDisk disk;
    const TemporaryDirectory directory;
    const size_t end = WriteLog(disk, directory.string());
    disk.LosePower(random);
    ASSERT_GT(end, 8000u);
    // Every byte of the header, then some of the frames.
    const uint64_t offset = round < 32 ? static_cast<uint64_t>(round) : random() % end;
    ASSERT_TRUE(disk.FlipBits("-wal", offset));
    const auto store = SqliteStore::Open(directory.string(), {.vfs = disk.name()});
    ASSERT_FALSE(store.ok()) << "offset " << offset;
    if (offset < 4 || offset >= 8) {  // the version of the log
      EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
      EXPECT_THAT(store.status().message(), HasSubstr("/log.db-wal is damaged"));
    }
  }
}

// One changed byte anywhere in the file: the store says so, or what it reads is what was written.
// A damaged index may hide a session; Check then says so.
TEST_F(SqliteStoreTest, AFlippedByteIsNeverReadAsData) {
  FaultyDisk disk;
  std::vector<SessionRow> sessions;
  std::vector<TurnRow> turns;
  {
    const auto store = Open(disk.name());
    ASSERT_TRUE(store.ok()) << store.status();
    for (uint64_t id = 1; id <= 5; ++id) {
      ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(id)}).ok());
      ASSERT_NE(CommitOne(**store, NewSession(id).key, id, 10), kNoTurn);
    }
    sessions = *(*store)->Sessions("", {}, 10, "");
    for (const SessionRow& row : sessions) turns.push_back(*(*store)->Turn(row.head));
  }
  ASSERT_EQ(sessions.size(), 5u);
  std::mt19937_64 random(1);
  const std::string file = disk.Contents("log.db");
  int noticed = 0;
  for (uint64_t offset = 0; offset < file.size(); ++offset) {
    if (file[offset] == 0 && random() % 64 != 0) continue;  // most zeros are free space
    const auto bits = static_cast<char>(1 << random() % 8);
    ASSERT_TRUE(disk.FlipBits("log.db", offset, bits));
    if (const auto store = Open(disk.name()); store.ok()) {
      bool failed = false, hidden = false;
      for (size_t i = 0; i < sessions.size(); ++i) {
        const auto session = (*store)->Session(sessions[i].key);
        const auto turn = (*store)->Turn(turns[i].number);
        failed = failed || !session.ok() || !turn.ok();
        hidden = hidden || absl::IsNotFound(session.status()) || absl::IsNotFound(turn.status());
        EXPECT_TRUE(!session.ok() || *session == sessions[i]) << "offset " << offset;
        EXPECT_TRUE(!turn.ok() || *turn == turns[i]) << "offset " << offset;
      }
      EXPECT_TRUE(!hidden || !(*store)->Check(10)->empty()) << "offset " << offset;
      noticed += failed ? 1 : 0;
    } else {
      ++noticed;
    }
    ASSERT_TRUE(disk.FlipBits("log.db", offset, bits));
  }
  EXPECT_GT(noticed, 1000);
}

}  // namespace
}  // namespace longstream::store
