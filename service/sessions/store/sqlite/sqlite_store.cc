// Opens the store; transactions and reads.
#include "service/sessions/store/sqlite/sqlite_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/errors/retry_after.h"
#include "service/sessions/store/sql/apply_change.h"
#include "service/sessions/store/sql/check_segments.h"
#include "service/sessions/store/sql/schema.h"
#include "service/sessions/store/sqlite/store_files.h"
#include "service/sessions/store/sqlite/wal_file.h"

namespace longstream::store {
namespace {

// Checkpoints are made by the store (Checkpoint), because SQLite does not report the errors
// of its own.
constexpr const char* kSettings =
    "PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
    "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA wal_autocheckpoint = 0;"
    "PRAGMA journal_size_limit = 67108864;";

// Frames of the log, of 4 KiB each, that start a checkpoint: reading rows from a longer log takes
// longer, and so does opening it.
constexpr int kLongWal = 1000;

constexpr absl::string_view kTablesMade = "log.db has been made\n";

// Remembers in the file LOCK that the tables exist.
absl::Status MarkTablesMade(int lock, const std::string& directory) {
  const ssize_t written = pwrite(lock, kTablesMade.data(), kTablesMade.size(), 0);
  if (written != static_cast<ssize_t>(kTablesMade.size()) || fsync(lock) != 0) {
    return FileError("write " + directory + "/LOCK");
  }
  return absl::OkStatus();
}

// `is_marked`: LOCK says that the tables exist.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> Connect(const std::string& directory,
                                                        const std::string& vfs, bool is_marked) {
  const std::string path = directory + "/log.db";
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = SqliteDatabase::Open(path, vfs);
  if (!database.ok()) return database.status();
  if (absl::Status status = (*database)->Execute(kSettings); !status.ok()) return status;
  // SQLite has now rolled back an interrupted transaction, so these may be other tables than those
  // that LockDirectory has seen.
  if (!is_marked) {
    if (absl::Status status = CheckTables(**database, path); !status.ok()) return status;
  }
  absl::StatusOr<StatementUse> mode = (*database)->Use("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  const Stepped code = (*mode)->Step();
  if (code != Stepped::kRow) return (*database)->Error("set the journal mode");
  // Some file systems cannot share memory between processes. SQLite then keeps another mode.
  if (const std::string is = (*mode)->Bytes(0); is != "wal") {
    return absl::UnavailableError(
        absl::StrCat("store: its file system has no write-ahead log; the mode stays '", is, "'"));
  }
  return database;
}

int RememberFrames(void* frames, sqlite3*, const char*, int count) {
  *static_cast<int*>(frames) = count;
  return SQLITE_OK;
}

// A status whose message also names the directory.
absl::Status InDirectory(const absl::Status& status, const std::string& directory) {
  if (status.ok() || absl::StrContains(status.message(), directory)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; the store is in ", directory));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& directory,
                                                               const Options& options) {
  const absl::StatusOr<int> lock = LockDirectory(directory);
  if (!lock.ok()) return lock.status();
  std::unique_ptr<SqliteStore> store(new SqliteStore(
      directory, *lock,
      options.segments ? options.segments() : NewPosixDirectory(directory + "/segments"),
      options.sealing));
  if (absl::Status status = store->Prepare(options.vfs); !status.ok()) {
    return InDirectory(status, directory);
  }
  store->RemoveOrphans();
  return store;
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::OpenExisting(const std::string& directory,
                                                                       const Options& options) {
  struct stat file {};
  if (stat((directory + "/log.db").c_str(), &file) != 0) {
    return FileError("open " + directory + "/log.db");
  }
  return Open(directory, options);
}

absl::Status SqliteStore::Prepare(const std::string& vfs) {
  absl::MutexLock lock(&write_mutex_);
  if (absl::Status status = RenewWal(directory_ + "/log.db", vfs); !status.ok()) return status;
  struct stat lock_file {};
  if (fstat(lock_, &lock_file) != 0) return FileError("read the size of LOCK");
  const bool is_marked = lock_file.st_size > 0;
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> writer = Connect(directory_, vfs, is_marked);
  if (!writer.ok()) return writer.status();
  writer_ = *std::move(writer);
  const absl::StatusOr<bool> has_tables = writer_->HasTable("store");
  if (!has_tables.ok()) return has_tables.status();
  if (!*has_tables && is_marked) {
    return absl::DataLossError(
        absl::StrCat("store: ", directory_, "/log.db is missing or empty, though it has been here;",
                     " restore it, or remove LOCK to begin with an empty store"));
  }
  if (absl::Status status = Migrate(*writer_); !status.ok()) return status;
  // Begins with an empty log, as RenewWal requires. If another process is reading, this is not
  // possible now.
  const int code = sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE,
                                             nullptr, nullptr);
  if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) {
    return writer_->ErrorOf(code, "copy the log into the file");
  }
  sqlite3_wal_hook(writer_->handle(), RememberFrames, &wal_frames_);
  for (int i = 0; i < kNumReaders; ++i) {
    absl::StatusOr<std::unique_ptr<SqliteDatabase>> reader =
        Connect(directory_, vfs, /*is_marked=*/true);
    if (!reader.ok()) return reader.status();
    readers_.Add(*std::move(reader));
  }
  if (stat((directory_ + "/log.db").c_str(), &log_) != 0) {
    return FileError("open " + directory_ + "/log.db");
  }
  if (is_marked) return absl::OkStatus();
  absl::Status status = MarkTablesMade(lock_, directory_);
  if (status.ok()) status = SyncDirectory(directory_);
  return status.ok() ? SyncDirectory(directory_ + "/..") : status;
}

SqliteStore::~SqliteStore() {
  const bool broken = !Broken().ok();
  absl::MutexLock lock(&write_mutex_);
  if (writer_ != nullptr) readers_.Add(std::move(writer_));
  readers_.Close([broken](Database& database) {
    // The disk may hold less than the log says. The next Open writes the log again before it is
    // copied.
    if (!broken) return;
    sqlite3* const handle = static_cast<SqliteDatabase&>(database).handle();
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  });
  close(lock_);
}

std::vector<absl::StatusOr<Applied>> SqliteStore::Apply(absl::Span<const Change> changes) {
  absl::MutexLock lock(&write_mutex_);
  absl::Status failed;
  std::vector<absl::StatusOr<Applied>> results = ApplyTogether(changes, &failed);
  if (absl::IsResourceExhausted(failed) && changes.size() > 1) {
    // One change may be too large for what the disk has left. The others need not suffer from it.
    for (size_t i = 0; i < changes.size(); ++i) {
      results[i] = ApplyTogether(changes.subspan(i, 1), &failed)[0];
    }
  }
  NoteRoom(failed, std::ranges::any_of(results, [](const auto& one) { return one.ok(); }));
  return results;
}

std::vector<absl::StatusOr<Applied>> SqliteStore::ApplyTogether(absl::Span<const Change> changes,
                                                                absl::Status* failed) {
  std::vector<absl::StatusOr<Applied>> results;
  results.reserve(changes.size());
  *failed = Broken();
  if (failed->ok()) *failed = writer_->Execute("BEGIN IMMEDIATE");
  if (failed->ok()) {
    for (const Change& change : changes) {
      results.push_back(ApplyChange(*writer_, change));
      const absl::Status& status = results.back().status();
      // A full disk or a failed write may have undone the changes before this one.
      if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
          (!status.ok() && !writer_->in_transaction())) {
        *failed = status;
        break;
      }
    }
    if (failed->ok()) *failed = CommitTransaction();
    if (!failed->ok()) writer_->Execute("ROLLBACK").IgnoreError();
  }
  if (!failed->ok()) results.assign(changes.size(), *failed);
  if (!failed->ok() && !absl::IsUnknown(*failed)) ForgetRows(changes);
  return results;
}

absl::Status SqliteStore::CommitTransaction() {
  absl::Status status = writer_->Execute("COMMIT");
  if (status.ok() && wal_frames_ >= kLongWal) Checkpoint();
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  Break(status);
  return UntilMended(absl::UnknownError(status.message()));
}

void SqliteStore::PrepareToClose() {
  absl::MutexLock lock(&write_mutex_);
  if (Broken().ok()) Checkpoint();
}

void SqliteStore::Checkpoint() {
  const int code = sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                             nullptr, nullptr);
  // The changes are durable in the log. If the disk is full, or a reader needs the log, the next
  // transaction tries again.
  const int primary = code & 0xff;
  if (primary == SQLITE_OK || primary == SQLITE_BUSY || primary == SQLITE_FULL) return;
  Break(writer_->ErrorOf(code, "copy the log into the file"));
}

void SqliteStore::NoteRoom(const absl::Status& status, bool made) {
  absl::MutexLock lock(&health_mutex_);
  if (health_.state == StoreState::kReadOnly) return;
  const bool full = absl::IsResourceExhausted(status);
  if (full) health_ = {StoreState::kFull, std::string(status.message())};
  if (!full && made) health_ = {};
}

void SqliteStore::Break(const absl::Status& error) {
  absl::MutexLock lock(&health_mutex_);
  health_ = {StoreState::kReadOnly,
             absl::StrCat(error.message(), "; the store in ", directory_,
                          " takes no changes until the server is started again")};
}

absl::Status SqliteStore::Broken() const {
  const StoreHealth health = Health();
  return health.state == StoreState::kReadOnly ? UntilMended(absl::UnavailableError(health.reason))
                                               : absl::OkStatus();
}

StoreHealth SqliteStore::Health() const {
  absl::MutexLock lock(&health_mutex_);
  return health_;
}

std::vector<StoreBytes> SqliteStore::Bytes() const {
  std::vector<StoreBytes> all = {{"log", 0}, {"wal", 0}};
  const char* const names[] = {"/log.db", "/log.db-wal"};
  for (size_t i = 0; i < all.size(); ++i) {
    struct stat file {};
    if (stat((directory_ + names[i]).c_str(), &file) == 0) {
      all[i].bytes = static_cast<uint64_t>(file.st_size);
    }
  }
  all.push_back({"segments", files_.bytes()});
  return all;
}

absl::Status SqliteStore::Transact(const std::function<absl::Status(Database&)>& change) {
  absl::MutexLock lock(&write_mutex_);
  if (absl::Status broken = Broken(); !broken.ok()) return broken;
  if (absl::Status status = writer_->Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
  absl::Status status = change(*writer_);
  if (status.ok()) status = CommitTransaction();
  if (!status.ok()) writer_->Execute("ROLLBACK").IgnoreError();
  return status;
}

// If this fails, the store works all the same, and some files stay until the next start.
void SqliteStore::RemoveOrphans() {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<NamedFiles> named = FilesWithRows(*reader);
  if (named.ok()) files_.RemoveOthers(std::move(named->names), named->bytes).IgnoreError();
}

absl::Status SqliteStore::Compact() {
  absl::MutexLock lock(&write_mutex_);
  if (absl::Status broken = Broken(); !broken.ok()) return broken;
  if (absl::Status status = writer_->Execute("VACUUM"); !status.ok()) return status;
  const int code = sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE,
                                             nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus()
                           : writer_->ErrorOf(code, "copy the log into the file");
}

}  // namespace longstream::store
