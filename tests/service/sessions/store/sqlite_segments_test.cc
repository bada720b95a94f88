// Snapshots in the store in one directory: migration, damage, checks, and faults of the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "service/sessions/store/sql/schema.h"
#include "tests/service/sessions/store/directory_fixture.h"
#include "tests/service/sessions/store/faulty_directory.h"
#include "tests/service/sessions/store/faulty_vfs.h"

namespace longstream::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SqliteSegmentsTest : public DirectoryTest {
 protected:
  void OpenStore() {
    store_.reset();
    store_ = Open();
  }
  // A store with one turn and its snapshot: a span in a file, and a fixed block in a row.
  void MakeSnapshot() {
    OpenStore();
    ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
    turn_ = CommitOne(*store_, key_, 1, 64);
    ASSERT_TRUE(
        AddOne(*store_, turn_, 2, NewKey(1), {{NewSpan(1, 0, {}), kLarge}, {NewFixed(2, 64), 3000}})
            .ok());
  }
  void Sql(const char* sql) {
    store_.reset();
    DirectoryTest::Sql(sql);
  }
  std::vector<std::filesystem::path> Files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_ + "/segments")) {
      files.push_back(entry.path());
    }
    return files;
  }

  std::unique_ptr<SqliteStore> store_;
  TurnNumber turn_ = kNoTurn;
};

// Makes the store as programs of version 1 did.
TEST_F(SqliteSegmentsTest, AStoreOfVersion1IsMigratedAndKeepsItsRows) {
  OpenStore();
  ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
  turn_ = CommitOne(*store_, key_, 1, 64);
  Sql("DROP TABLE span_sums; DROP TABLE turn_sums;"
      "DROP TABLE segments; DROP TABLE snapshots; DROP TABLE dead_segments;"
      "DROP TABLE aliases; DROP TABLE notes;"
      "UPDATE store SET version = 1");
  EXPECT_THAT(Check(), IsEmpty()) << "also before it is migrated";
  ASSERT_TRUE(BackUpStore(path_, directory_.string() + "/backup").ok());
  OpenStore();
  EXPECT_EQ(store_->Turn(turn_)->position, 64u);
  EXPECT_TRUE(AddOne(*store_, turn_, 2, {}, {{NewFixed(2, 64), kLarge}}).ok());
  EXPECT_THAT(Check(), IsEmpty());
  store_.reset();
  const auto log = SqliteDatabase::OpenToRead(path_ + "/log.db");
  EXPECT_EQ(*StoredVersion(**log, SchemaSteps().size()), 6);
  EXPECT_EQ(*StoredVersion(**log, 1), 6) << "a program of version 1 may open it";
}

// Makes the store as programs of version 2 did, and as they change it later.
TEST_F(SqliteSegmentsTest, TheBytesOfAHeadDoNotNeedTheSumsOfVersion3) {
  MakeSnapshot();
  const TurnNumber second = CommitOne(*store_, key_, 2, 128);
  ASSERT_TRUE(AddOne(*store_, second, 4, NewKey(3),
                     {{NewSpan(3, 1, NewKey(1)), kLarge}, {NewFixed(4, 128), 30}})
                  .ok());
  const uint64_t bytes = *store_->HeadBytes("", second);
  EXPECT_GT(bytes, 2 * kLarge);
  Sql("DROP TABLE span_sums; DROP TABLE turn_sums; DROP TABLE aliases; DROP TABLE notes; UPDATE "
      "store SET version = "
      "2");
  EXPECT_THAT(Check(), IsEmpty()) << "also before it is migrated";
  ASSERT_TRUE(BackUpStore(path_, directory_.string() + "/backup").ok());
  OpenStore();
  EXPECT_EQ(*store_->HeadBytes("", second), bytes);
  const TurnNumber third = CommitOne(*store_, key_, 3, 192);
  const uint64_t with_third = *store_->HeadBytes("", third);
  EXPECT_GT(with_third, bytes);
  Sql("DELETE FROM turn_sums");
  OpenStore();
  EXPECT_EQ(*store_->HeadBytes("", third), with_third);
  Sql("INSERT INTO turn_sums VALUES (1, 77)");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("the sum of the bytes up to turn 1 is 77, not ")));
}

// The rows of a long history say nothing of their sizes any more, and need not.
TEST_F(SqliteSegmentsTest, TheBytesOfAHeadNeedOnlyItsLastRows) {
  OpenStore();
  ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
  constexpr uint64_t kTurns = 300;  // more than are looked at
  std::optional<SegmentKey> span;
  for (uint64_t i = 1; i <= kTurns; ++i) {
    turn_ = CommitOne(*store_, key_, i, 64 * i);
    const SegmentKey next = NewKey(2 * i);
    ASSERT_TRUE(AddOne(*store_, turn_, 2 * i + 1, next,
                       {{NewSpan(2 * i, i - 1, span), 100}, {NewFixed(2 * i + 1, 64 * i), 10}},
                       {turn_ - 1})
                    .ok());
    span = next;
  }
  const uint64_t bytes = *store_->HeadBytes("", turn_);
  EXPECT_GT(bytes, kTurns * (100 + std::string("requestresult 1").size()));
  Sql("UPDATE turns SET request = zeroblob(1000000) WHERE number = 1;"
      "UPDATE segments SET bytes = 1000000 WHERE number IN (SELECT min(number) FROM segments)");
  OpenStore();
  EXPECT_EQ(*store_->HeadBytes("", turn_), bytes);
}

// It removes turns and knows nothing of snapshots.
TEST_F(SqliteSegmentsTest, AProgramOfVersion1MayRemoveTurnsMeanwhile) {
  MakeSnapshot();
  const TurnNumber second = CommitOne(*store_, key_, 2, 128);
  ASSERT_TRUE(AddOne(*store_, second, 4, NewKey(1), {{NewFixed(4, 128)}}).ok());
  Sql("PRAGMA foreign_keys = ON; UPDATE sessions SET head = NULL; DELETE FROM turns WHERE number = "
      "2;"
      "UPDATE turns SET state = 4");
  OpenStore();
  EXPECT_TRUE(store_->FindSegment("", NewKey(1)).ok());
  ASSERT_TRUE(store_->Collect(At(0)).ok());
  for (const uint64_t key : {1u, 2u, 4u}) {
    EXPECT_EQ(store_->FindSegment("", NewKey(key)).status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(*store_->CollectSegments({.now = At(0), .remove_after = absl::ZeroDuration()}), kLarge);
}

TEST_F(SqliteSegmentsTest, FilesWithoutARowAreRemovedAtTheStart) {
  MakeSnapshot();
  ASSERT_THAT(Files(), SizeIs(1));
  store_.reset();
  std::ofstream(path_ + "/segments/" + std::string(32, 'a')) << "half a segment";
  EXPECT_THAT(Check(), IsEmpty()) << "a row may still come";
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(11);
  std::filesystem::last_write_time(path_ + "/segments/" + std::string(32, 'a'), old);
  EXPECT_THAT(Check(), ElementsAre(HasSubstr(std::string(32, 'a') + " of segments has no row")));
  OpenStore();
  EXPECT_THAT(Files(), SizeIs(1));
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_EQ(store_->Bytes().back().bytes, kLarge);
}

// Somebody has changed the rows, with right checksums.
TEST_F(SqliteSegmentsTest, NamesOfFilesDoNotLeadOutOfTheDirectory) {
  const std::string victim = directory_.Write("victim", "bytes of another program");
  const auto segments = NewPosixDirectory(path_ + "/segments");
  for (const std::string& name :
       {std::string("../../victim"), victim, std::string(".."), std::string("."), std::string(),
        std::string("a/b"), std::string("victim\0x", 8)}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(segments->Open(name).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(segments->Create(name).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(segments->Remove(name).code(), absl::StatusCode::kDataLoss);
  }
  MakeSnapshot();
  Sql("INSERT INTO dead_segments VALUES ('../../victim', 24, 0)");
  OpenStore();
  EXPECT_TRUE(store_->CollectSegments({.now = At(0), .remove_after = absl::ZeroDuration()}).ok());
  EXPECT_TRUE(std::filesystem::exists(victim));
}

TEST_F(SqliteSegmentsTest, LinksInPlaceOfFilesAreNotFollowed) {
  MakeSnapshot();
  const std::filesystem::path file = Files()[0], moved = directory_.path() / "moved";
  std::filesystem::rename(file, moved);
  std::filesystem::create_symlink(moved, file);
  const auto read = ReadAll(*store_, "", NewKey(1));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("is a link"));
  store_.reset();
  for (const char* name : {"/LOCK", "/log.db"}) {
    const std::string path = path_ + name, target = directory_.string() + name;
    std::filesystem::rename(path, target);
    std::filesystem::create_symlink(target, path);
    const absl::Status status = SqliteStore::Open(path_, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + " is a link"));
    std::filesystem::remove(path);
    std::filesystem::rename(target, path);
  }
  EXPECT_TRUE(SqliteStore::Open(path_, {}).ok());
}

TEST_F(SqliteSegmentsTest, CheckFindsFilesThatAreMissingCutOrChanged) {
  MakeSnapshot();
  EXPECT_THAT(Check(), IsEmpty());
  const std::filesystem::path file = Files()[0];
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(kLarge - 1).put('\0');
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("checksum differs")));
  EXPECT_THAT(*store_->Check(10), ElementsAre(HasSubstr(NewKey(1).ToString())));
  std::filesystem::resize_file(file, kLarge - 1);
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("has 199999 bytes, not 200000")));
  std::filesystem::remove(file);
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("has no file")));
  EXPECT_EQ(store_->ReadSegment("", NewKey(1)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(ReadAll(*store_, "", NewKey(2)).ok()) << "others are served";

  // The segment can be written anew.
  ASSERT_TRUE(
      AddOne(*store_, turn_, 2, NewKey(1), {{NewSpan(1, 0, {}), kLarge}, {NewFixed(2, 64), 3000}})
          .ok());
  EXPECT_THAT(Check(), IsEmpty());
  EXPECT_TRUE(ReadAll(*store_, "", NewKey(1)).ok());
}

TEST_F(SqliteSegmentsTest, CheckFindsDamagedRowsAndLinks) {
  MakeSnapshot();
  Sql("UPDATE segments SET data = x'00' WHERE data IS NOT NULL");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("in a row, has 1 bytes, not 3000")));
  Sql("UPDATE segments SET end_token = 65 WHERE file IS NOT NULL");
  EXPECT_THAT(Check(), testing::Contains(HasSubstr("the row of segment")));
  Sql("UPDATE snapshots SET position = 5");
  EXPECT_THAT(Check(), testing::Contains(HasSubstr("a snapshot of turn 1 is damaged")));
  Sql("DELETE FROM segments");
  EXPECT_THAT(Check(), testing::Contains(HasSubstr("names a segment that is missing")));
  OpenStore();
  EXPECT_THAT(*store_->Snapshots(turn_, 1), IsEmpty()) << "a damaged snapshot is left out";
  EXPECT_TRUE(
      AddOne(*store_, turn_, 2, NewKey(1), {{NewSpan(1, 0, {}), kLarge}, {NewFixed(2, 64), 3000}})
          .ok())
      << "and can be written anew";
  EXPECT_THAT(Check(), IsEmpty());
}

// The list of snapshots needs the links of turns, and not their contents.
TEST_F(SqliteSegmentsTest, SnapshotsBehindADamagedTurnAreDataLossIfItsLinkIsDamaged) {
  MakeSnapshot();
  const TurnNumber second = CommitOne(*store_, key_, 2, 128);
  const TurnNumber third = CommitOne(*store_, key_, 3, 192);
  const auto visit = [](const TurnRow&) { return true; };
  Sql("UPDATE turns SET result = x'00' WHERE number = 2");
  OpenStore();
  EXPECT_THAT(*store_->Snapshots(third, 10), SizeIs(1));
  EXPECT_EQ(store_->VisitPath(third, visit).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(store_->VisitLinks(third, visit).ok());
  Sql("UPDATE turns SET position = 129 WHERE number = 2");
  OpenStore();
  EXPECT_EQ(store_->Snapshots(third, 10).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(*store_->Snapshots(third, 1), IsEmpty()) << "the damaged turn is farther away";
  EXPECT_EQ(store_->VisitLinks(second, visit).code(), absl::StatusCode::kDataLoss);
  Sql("DELETE FROM turns WHERE number = 2");
  OpenStore();
  EXPECT_EQ(store_->Snapshots(third, 10).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteSegmentsTest, ADamagedRowIsWrittenAnew) {
  MakeSnapshot();
  Sql("UPDATE segments SET bytes = bytes + 1");
  OpenStore();
  EXPECT_EQ(store_->FindSegment("", NewKey(1)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store_->Segments("", store_->Snapshots(turn_, 1)->front()).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(AddOne(*store_, turn_, 2, NewKey(1), {}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(
      AddOne(*store_, turn_, 2, NewKey(1), {{NewSpan(1, 0, {}), kLarge}, {NewFixed(2, 64), 3000}})
          .ok());
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(SqliteSegmentsTest, ABackupHasTheLogWithoutSnapshots) {
  MakeSnapshot();
  const std::string copy = directory_.string() + "/backup";
  std::filesystem::remove(Files()[0]);  // damage of a snapshot does not stop a backup
  ASSERT_TRUE(BackUpStore(path_, copy).ok());
  EXPECT_FALSE(std::filesystem::exists(copy + "/segments"));
  const auto restored = SqliteStore::Open(copy, {});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)->Turn(turn_)->position, 64u);
  EXPECT_THAT(*(*restored)->Snapshots(turn_, 1), IsEmpty());
  EXPECT_THAT(*(*restored)->Check(10), IsEmpty());
}

// The folder of the segments is a file: no snapshot can be written, and the log works.
TEST_F(SqliteSegmentsTest, AFolderThatCannotBeMadeDoesNotHurtTheLog) {
  std::filesystem::create_directory(path_);
  directory_.Write("store/segments", "text");
  OpenStore();
  ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
  turn_ = CommitOne(*store_, key_, 1, 64);
  ASSERT_NE(turn_, kNoTurn);
  EXPECT_EQ(AddOne(*store_, turn_, 2, {}, {{NewFixed(2, 64), kLarge}}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_->Health().state, StoreState::kOk);
  EXPECT_TRUE(AddOne(*store_, turn_, 2, {}, {{NewFixed(2, 64), 3000}}).ok()) << "needs no file";
}

TEST_F(SqliteSegmentsTest, AFullDiskUnderTheSegmentsLeavesTheLogOk) {
  FaultyDirectory segments;
  store_ = *SqliteStore::Open(path_, {.vfs = "", .segments = [&] { return segments.View(); }});
  ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
  segments.SetFull(true);
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  EXPECT_EQ(AddOne(*store_, turn, 2, {}, {{NewFixed(2, 64), kLarge}}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->Health().state, StoreState::kOk);
  EXPECT_NE(CommitOne(*store_, key_, 2, 20), kNoTurn);
  segments.SetRoom({.capacity = 1000, .free = 50});
  EXPECT_EQ(store_->WriteSegments().status().code(), absl::StatusCode::kResourceExhausted);
  store_.reset();
}

// The outcome of the commit is unknown, so the files must stay.
TEST_F(SqliteSegmentsTest, FilesStayIfTheCommitMayHaveBeenMade) {
  FaultyDisk disk;
  FaultyDirectory segments;
  const SqliteStore::Options options = {.vfs = disk.name(),
                                        .segments = [&] { return segments.View(); }};
  store_ = *SqliteStore::Open(path_, options);
  ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
  turn_ = CommitOne(*store_, key_, 1, 10);
  disk.SetFsyncFails("-wal");
  EXPECT_EQ(AddOne(*store_, turn_, 2, {}, {{NewFixed(2, 64), kLarge}}).code(),
            absl::StatusCode::kUnknown);
  EXPECT_THAT(segments.Files(), SizeIs(1));
  disk.SetFsyncFails(std::nullopt);
  EXPECT_EQ(AddOne(*store_, turn_, 3, {}, {{NewFixed(3, 64), kLarge}}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_THAT(segments.Files(), SizeIs(1)) << "this one was not made for sure";
  store_.reset();
  store_ = *SqliteStore::Open(path_, options);
  EXPECT_THAT(segments.Files(), SizeIs(1));
  EXPECT_TRUE(ReadAll(*store_, "", NewKey(2)).ok());
  store_.reset();
}

TEST_F(SqliteSegmentsTest, AFileThatCannotBeRemovedIsRemovedLater) {
  FaultyDirectory segments;
  store_ = *SqliteStore::Open(path_, {.vfs = "", .segments = [&] { return segments.View(); }});
  ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(7)}).ok());
  turn_ = CommitOne(*store_, key_, 1, 10);
  ASSERT_TRUE(AddOne(*store_, turn_, 1, {}, {{NewFixed(1, 10), kLarge}}).ok());
  ASSERT_TRUE(AddOne(*store_, turn_, 2, {}, {{NewFixed(2, 10), kLarge}}).ok());
  const SegmentCollection collection = {.now = At(0), .remove_after = absl::ZeroDuration()};
  segments.FailAfter(0);
  EXPECT_EQ(store_->CollectSegments(collection).status().code(), absl::StatusCode::kUnavailable);
  segments.FailAfter(100);
  EXPECT_EQ(store_->Bytes().back().bytes, 2 * kLarge);
  EXPECT_EQ(*store_->CollectSegments(collection), kLarge);
  EXPECT_EQ(store_->Bytes().back().bytes, kLarge);
  store_.reset();
}

}  // namespace
}  // namespace longstream::store
