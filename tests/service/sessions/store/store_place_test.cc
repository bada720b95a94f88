// Tests of the store's files: who can read them, what may be in their place, and their loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/sessions/store/sqlite/database.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "service/sessions/store/sqlite/store_files.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

// Gives every file that is made while it lives the mode that the program asks for.
class NoUmask {
 public:
  NoUmask() : old_(umask(0)) {}
  ~NoUmask() { umask(old_); }
  NoUmask(const NoUmask&) = delete;
  NoUmask& operator=(const NoUmask&) = delete;

 private:
  const mode_t old_;
};

class StorePlaceTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& vfs = "") {
    return SqliteStore::Open(path_, {.vfs = vfs});
  }
  // The files below `directory` that another user can read.
  static std::vector<std::string> ReadByOthers(const std::string& directory) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
      struct stat file {};
      EXPECT_EQ(lstat(entry.path().c_str(), &file), 0);
      if ((file.st_mode & 0077) != 0) names.push_back(entry.path().filename().string());
    }
    return names;
  }
  // Makes a directory that every user can read and write.
  static void MakeOpenDirectory(const std::string& path) {
    fs::create_directory(path);
    fs::permissions(path, fs::perms::all);
  }

  // The mode and the bytes of each file of the store's directory. The index of a write-ahead log
  // has no data: only its name counts.
  std::map<std::string, std::pair<unsigned, std::string>> Files() const {
    std::map<std::string, std::pair<unsigned, std::string>> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      std::ifstream file(entry.path());
      std::string bytes(std::istreambuf_iterator<char>(file), {});
      const std::string name = entry.path().filename().string();
      if (name == "log.db-shm") bytes.clear();
      files[name] = {static_cast<unsigned>(entry.status().permissions()), std::move(bytes)};
    }
    return files;
  }
  // A database of another program, made by `sql` in a new directory. Every user can read its files.
  void MakeForeign(const std::string& sql) {
    fs::remove_all(path_);
    fs::create_directory(path_);
    const auto database = SqliteDatabase::Open(log_, "");
    ASSERT_TRUE(database.ok()) << database.status();
    const absl::Status status = (*database)->Execute(sql.c_str());
    ASSERT_TRUE(status.ok()) << sql << ": " << status;
    fs::permissions(log_, fs::perms(0644));
  }
  // Executes `sql` in a transaction, and leaves the files as if the program had ended abruptly at
  // its commit: the journal of the transaction is still there.
  void LeaveHotJournal(const std::string& sql) {
    const auto database = SqliteDatabase::Open(log_, "");
    ASSERT_TRUE(database.ok()) << database.status();
    const std::string begin = "PRAGMA synchronous = OFF; BEGIN IMMEDIATE; " + sql;
    const absl::Status status = (*database)->Execute(begin.c_str());
    ASSERT_TRUE(status.ok()) << sql << ": " << status;
    fs::copy_file(log_ + "-journal", log_ + "-copy");
    ASSERT_TRUE((*database)->Execute("COMMIT").ok());
    fs::rename(log_ + "-copy", log_ + "-journal");
  }
  void ExpectForeignIsRefusedAndStays() {
    const auto before = Files();
    for (const absl::Status& refused : {Open().status(), InspectStore(path_).status()}) {
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
      EXPECT_THAT(refused.message(), HasSubstr("a database of another program, with a table '"));
      EXPECT_THAT(refused.message(), HasSubstr(log_));
    }
    EXPECT_EQ(Files(), before);
  }
  // A store with one session that was restored from a backup, so without LOCK.
  void Restore() {
    { ASSERT_TRUE(ApplyOne(**Open(), OpenSession{NewSession(7)}).ok()); }
    const std::string copy = directory_.string() + "/backup";
    ASSERT_TRUE(BackUpStore(path_, copy).ok());
    fs::remove_all(path_);
    fs::rename(copy, path_);
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.string() + "/store";
  const std::string log_ = path_ + "/log.db";
  const SessionKey key_ = NewSession(7).key;
};

TEST_F(StorePlaceTest, OnlyTheUserReadsTheFilesOfADirectoryThatOthersCanRead) {
  const NoUmask no_umask;
  MakeOpenDirectory(path_);
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
  const TurnNumber turn = CommitOne(**store, key_, 1, 64);
  ASSERT_TRUE(
      AddOne(**store, turn, 2, NewKey(1), {{NewSpan(1, 0, {}), 100}, {NewFixed(2, 64), 100}}).ok());
  ASSERT_TRUE(fs::exists(path_ + "/log.db-wal") && fs::exists(path_ + "/log.db-shm"));
  EXPECT_THAT(ReadByOthers(path_), IsEmpty());
  const std::string copy = directory_.string() + "/backup";
  MakeOpenDirectory(copy);
  const absl::Status backed_up = BackUpStore(path_, copy);
  ASSERT_TRUE(backed_up.ok()) << backed_up;
  EXPECT_THAT(ReadByOthers(copy), IsEmpty());
}

// Earlier programs made files that everybody could read.
TEST_F(StorePlaceTest, FilesThatOthersCouldReadBecomePrivate) {
  { ASSERT_TRUE(ApplyOne(**Open(), OpenSession{NewSession(7)}).ok()); }
  directory_.Write("store/log.db-wal", "");
  for (const char* name : {"/log.db", "/log.db-wal", "/LOCK"}) {
    fs::permissions(path_ + name, fs::perms::all);
  }
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->Session(key_).ok());
  EXPECT_THAT(ReadByOthers(path_), IsEmpty());
}

TEST_F(StorePlaceTest, ABackupNeedsADirectoryOfItsOwn) {
  ASSERT_TRUE(ApplyOne(**Open(), OpenSession{NewSession(7)}).ok());
  fs::create_directory(path_ + "/segments");
  fs::create_directory_symlink(path_, directory_.path() / "link");
  for (const char* within : {"", "/", "/segments", "/segments/new", "/new/../new"}) {
    const absl::Status status = BackUpStore(path_, path_ + within);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << within << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("is within the store"));
  }
  EXPECT_EQ(BackUpStore(path_, directory_.string() + "/link/new").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(path_ + "/new"));
  const std::string full = directory_.string() + "/full";
  fs::create_directory(full);
  directory_.Write("full/notes", "text");
  const absl::Status refused = BackUpStore(path_, full);
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << refused;
  EXPECT_THAT(refused.message(), HasSubstr(full + " is not empty, it has notes"));
  EXPECT_FALSE(fs::exists(full + "/log.db"));
  // The rest of an interrupted backup is no hindrance.
  fs::rename(full + "/notes", full + "/log.db.part");
  EXPECT_TRUE(BackUpStore(path_, full).ok());
  EXPECT_EQ(BackUpStore(path_, full).code(), absl::StatusCode::kAlreadyExists) << "it has a copy";
}

TEST_F(StorePlaceTest, APipeInPlaceOfAFileIsRefused) {
  for (const char* name : {"/log.db", "/log.db-wal", "/LOCK"}) {
    fs::remove_all(path_);
    { ASSERT_TRUE(Open().ok()); }
    fs::remove(path_ + name);
    ASSERT_EQ(mkfifo((path_ + name).c_str(), 0600), 0);
    for (const absl::Status& status :
         {Open().status(), CheckStore(path_, 10).status(), InspectStore(path_).status(),
          BackUpStore(path_, directory_.string() + "/backup")}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << name << ": " << status;
      EXPECT_THAT(status.message(), HasSubstr(path_ + name + " is not a regular file"));
    }
  }
}

// A new store touches neither a database of another program nor a file that is no database.
TEST_F(StorePlaceTest, FilesOfAnotherProgramAreRefusedAndStay) {
  for (const char* sql : {"CREATE TABLE mine (a)", "CREATE TABLE sessions (a)",
                          "CREATE TABLE store (version, name); INSERT INTO store VALUES (1, 'a')",
                          "CREATE TABLE store (version, min_reader, id)"}) {
    SCOPED_TRACE(sql);
    MakeForeign(sql);
    ExpectForeignIsRefusedAndStays();
    MakeForeign(std::string("PRAGMA journal_mode = WAL; ") + sql);
    ExpectForeignIsRefusedAndStays();
  }
  MakeForeign("CREATE TABLE mine (a)");
  fs::remove(log_);
  directory_.Write("store/log.db", "my log");
  const auto before = Files();
  EXPECT_THAT(Open().status().message(), HasSubstr("/log.db is no database of SQLite; name an"));
  EXPECT_EQ(Files(), before);
}

TEST_F(StorePlaceTest, ADatabaseThatAnotherProgramHasOpenIsRefusedAndStays) {
  MakeForeign("PRAGMA journal_mode = WAL");
  const auto database = SqliteDatabase::Open(log_, "");
  ASSERT_TRUE((*database)->Execute("CREATE TABLE mine (a)").ok());
  ExpectForeignIsRefusedAndStays();
}

// A connection that only reads cannot roll the transaction back, and would fail.
TEST_F(StorePlaceTest, ADatabaseWithAnInterruptedTransactionOfAnotherProgramIsRefused) {
  MakeForeign("CREATE TABLE mine (a)");
  LeaveHotJournal("CREATE TABLE more (a)");
  ExpectForeignIsRefusedAndStays();
  // Only the transaction's end hides the table.
  MakeForeign("CREATE TABLE mine (a)");
  LeaveHotJournal("DROP TABLE mine");
  const absl::Status refused = Open().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("another program, with a table 'mine'"));
  const auto database = SqliteDatabase::Open(log_, "");
  EXPECT_FALSE((*database)->HasTable("store").value_or(true));
}

TEST_F(StorePlaceTest, AnInterruptedStartIsNoHindrance) {
  Restore();
  LeaveHotJournal("UPDATE store SET id = randomblob(16)");
  {
    const auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->Session(key_).ok());
  }
  // Ended before LOCK said that the tables exist.
  fs::resize_file(path_ + "/LOCK", 0);
  EXPECT_EQ(*InspectStore(path_), "it has 1 sessions");
  EXPECT_TRUE((*Open())->Session(key_).ok());
  MakeForeign("PRAGMA journal_mode = WAL");
  EXPECT_EQ(*InspectStore(path_), "it is empty");
  EXPECT_TRUE(Open().ok()) << Open().status();
  // The power failed while the file was made: SQLite had its journal, but not yet the page.
  MakeForeign("");
  LeaveHotJournal("CREATE TABLE store (a)");
  fs::resize_file(log_, 0);
  fs::resize_file(log_, 4096);
  EXPECT_THAT(*InspectStore(path_), HasSubstr("was interrupted, and will be undone"));
  EXPECT_TRUE(Open().ok()) << Open().status();
}

TEST_F(StorePlaceTest, ADamagedBackupIsDataLossAndAnotherOneHelps) {
  Restore();
  const std::string whole = Files()["log.db"].second;
  int num_damaged = 0;
  for (size_t offset = 16; offset < 200; ++offset) {
    std::string bytes = whole;
    bytes[offset] = static_cast<char>(bytes[offset] ^ 4);
    directory_.Write("store/log.db", bytes);
    const absl::Status status = InspectStore(path_).status();
    EXPECT_THAT(status.message(), testing::Not(HasSubstr("name an empty"))) << offset;
    if (!absl::IsDataLoss(status)) continue;
    ++num_damaged;
    EXPECT_THAT(status.message(), HasSubstr("/log.db is damaged: ")) << offset;
    EXPECT_THAT(status.message(), HasSubstr("restore another backup (docs/durability.md)"));
    EXPECT_EQ(Open().status(), status);
    EXPECT_FALSE(fs::exists(path_ + "/LOCK"));
  }
  EXPECT_GT(num_damaged, 10);
}

TEST_F(StorePlaceTest, AStoreWhoseFilesAreRemovedTakesNoChanges) {
  for (const char* name : {"/LOCK", "/log.db", ""}) {
    fs::remove_all(path_);
    const auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->Probe();
    ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
    EXPECT_EQ((*store)->Health().state, StoreState::kOk);
    fs::remove_all(path_ + name);
    (*store)->Probe();
    EXPECT_EQ((*store)->Health().state, StoreState::kReadOnly) << name;
    EXPECT_THAT((*store)->Health().reason, HasSubstr(" was removed while the server runs"));
    const absl::Status refused = ApplyOne(**store, OpenSession{NewSession(8)}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
    EXPECT_TRUE((*store)->Session(key_).ok()) << "reads go on";
  }
}

TEST_F(StorePlaceTest, ASecondStoreInTheSamePlaceEndsTheChangesOfTheFirst) {
  const auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  fs::rename(path_, path_ + "-moved");
  const auto second = Open();
  ASSERT_TRUE(second.ok()) << second.status();
  (*first)->Probe();
  (*second)->Probe();
  EXPECT_THAT((*first)->Health().reason, HasSubstr("/LOCK was replaced by another file"));
  EXPECT_EQ((*second)->Health().state, StoreState::kOk);
}

TEST_F(StorePlaceTest, AFullDiskThatHasRoomAgainIsNoticedWithoutAChange) {
  FaultyDisk disk;
  const auto store = Open(disk.name());
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
  disk.SetFull(true);
  EXPECT_FALSE(
      ApplyOne(**store, StartTurn{{key_, 1, 1}, NewTurn(1, std::string(1 << 20, 'x'))}).ok());
  (*store)->Probe();
  EXPECT_EQ((*store)->Health().state, StoreState::kFull);
  disk.SetFull(false);
  (*store)->Probe();
  EXPECT_EQ((*store)->Health().state, StoreState::kOk);
  EXPECT_THAT((*store)->Health().reason, IsEmpty());
  EXPECT_THAT(*(*store)->Check(10), IsEmpty());
}

}  // namespace
}  // namespace longstream::store
