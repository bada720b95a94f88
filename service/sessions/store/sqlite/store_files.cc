// Reads the files with a connection that never writes; writes a backup under another name first.
#include "service/sessions/store/sqlite/store_files.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/sessions/store/sql/check_log.h"
#include "service/sessions/store/sql/check_segments.h"
#include "service/sessions/store/sql/schema.h"
#include "service/sessions/store/sqlite/database.h"

namespace longstream::store {
namespace {

bool Exists(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0;
}

// The files of a store that have prompts, or guard it.
constexpr const char* kFiles[] = {"/log.db", "/log.db-wal", "/log.db-shm", "/log.db-journal",
                                  "/LOCK"};

// Refuses files of the store that are links, which could lead anywhere, and databases that are no
// regular files: opening a pipe would wait for its writer.
absl::Status CheckKinds(const std::string& directory) {
  const auto refuse = [](const std::string& path, const char* what) {
    return absl::FailedPreconditionError(absl::StrCat("store: ", path, what));
  };
  struct stat file {};
  const std::string segments = directory + "/segments";
  if (lstat(segments.c_str(), &file) == 0 && S_ISLNK(file.st_mode)) {
    return refuse(segments, " is a link");
  }
  for (const char* name : kFiles) {
    const std::string path = directory + name;
    if (lstat(path.c_str(), &file) != 0) continue;
    if (S_ISLNK(file.st_mode)) return refuse(path, " is a link");
    if (!S_ISREG(file.st_mode)) return refuse(path, " is not a regular file");
  }
  return absl::OkStatus();
}

// Whether LOCK says that log.db has been made. Then it is the store's.
bool IsMarked(const std::string& directory) {
  struct stat file {};
  return stat((directory + "/LOCK").c_str(), &file) == 0 && file.st_size > 0;
}

// The first `size` bytes of a file, or as many as it has; none if it cannot be read. REQUIRES: this
// process does not have the file open in SQLite, whose locks on it would be lost.
std::string BeginningOf(const std::string& path, size_t size) {
  std::string bytes(size, '\0');
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  const ssize_t count = file < 0 ? 0 : pread(file, bytes.data(), size, 0);
  if (file >= 0) close(file);
  bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return bytes;
}

constexpr absl::string_view kMagic("SQLite format 3", 16);  // with the zero at its end

// Whether a transaction on an empty file was interrupted, as when a server ends while it makes the
// store. SQLite will empty the file again. `beginning`: of the file, as long as kMagic.
// https://www.sqlite.org/fileformat2.html#the_rollback_journal
bool WasEmpty(const std::string& path, const std::string& beginning) {
  const std::string zeros(kMagic.size(), '\0');
  if (beginning != kMagic && beginning != zeros) return false;
  const std::string header = BeginningOf(path + "-journal", 20);
  return header.size() == 20 && header.substr(0, 8) == "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" &&
         header.substr(16) == zeros.substr(0, 4);  // its pages before the transaction
}

absl::Status RefuseLog(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("store: ", path, what, "; name an empty directory"));
}

// An error that SQLite has met while it was found out whose database `path` is.
absl::Status CannotTell(const std::string& path, const absl::Status& error) {
  if (!absl::IsDataLoss(error)) return error;
  return absl::DataLossError(absl::StrCat("store: ", path, " is damaged: ", error.message(),
                                          "; restore another backup (docs/durability.md)"));
}

// Refuses a log.db with bytes that another program has made, and one that cannot be read. Changes
// nothing. But if there is a write-ahead log, SQLite may make its index, log.db-shm, anew.
absl::Status CheckIsNoOthers(const std::string& directory) {
  const std::string path = directory + "/log.db";
  struct stat file {};
  if (IsMarked(directory)) return absl::OkStatus();
  if (stat(path.c_str(), &file) != 0 || file.st_size == 0) return absl::OkStatus();
  const std::string beginning = BeginningOf(path, kMagic.size());
  // A connection that only reads could not roll back an interrupted transaction, so it would fail.
  // The tables are there all the same, or CheckTables sees them afterwards.
  const bool has_wal = stat((path + "-wal").c_str(), &file) == 0 && file.st_size > 0;
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> log =
      has_wal ? SqliteDatabase::OpenToRead(path) : SqliteDatabase::OpenAlone(path);
  absl::Status status = log.ok() ? CheckTables(**log, path) : log.status();
  if (status.ok() || WasEmpty(path, beginning)) return absl::OkStatus();
  if (!log.ok() && !beginning.empty() && beginning != kMagic) {
    return RefuseLog(path, " is no database of SQLite");
  }
  return log.ok() ? status : CannotTell(path, status);
}

// Takes the file from everybody but its user, whatever the umask was when it was made.
absl::Status MakePrivate(const std::string& path) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0) {
    return errno == ENOENT ? absl::OkStatus() : FileError("read the mode of " + path);
  }
  if ((file.st_mode & 0077) == 0) return absl::OkStatus();
  // Not by an open file: closing it would drop the locks that SQLite holds on it in this process.
  if (fchmodat(AT_FDCWD, path.c_str(), 0600, AT_SYMLINK_NOFOLLOW) == 0) return absl::OkStatus();
  return FileError("set the mode 0600 of " + path);
}

// Makes a file that only its user can read, unless it exists. SQLite gives the companions of a
// database the database's mode.
absl::Status MakePrivateFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0) close(file);
  return file >= 0 || errno == EEXIST ? MakePrivate(path) : FileError("make " + path);
}

// Opens the log of a store that this program may use.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenLog(const std::string& directory) {
  const std::string path = directory + "/log.db";
  if (!Exists(path)) return FileError("open " + path);
  if (absl::Status status = CheckKinds(directory); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = SqliteDatabase::OpenToRead(path);
  if (!database.ok()) return database.status();
  const absl::StatusOr<int64_t> version = StoredVersion(**database, SchemaSteps().size());
  if (!version.ok()) {
    return absl::Status(version.status().code(),
                        absl::StrCat(version.status().message(), ": ", path));
  }
  if (*version > 0) return database;
  return absl::DataLossError(absl::StrCat("store: ", path, " has no tables"));
}

// Copies all pages in one read transaction, which waits for nobody and delays nobody.
absl::Status CopyPages(const SqliteDatabase& from, const SqliteDatabase& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.handle(), "main", from.handle(), "main");
  if (backup == nullptr) return to.Error("begin the copy");
  const int code = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  return code == SQLITE_DONE ? absl::OkStatus() : to.ErrorOf(code, "copy the pages");
}

// A copy has no files of segments, so it has no snapshots. They can be computed again.
absl::Status LeaveOutSnapshots(Database& copy) {
  const absl::StatusOr<bool> has_segments = copy.HasTable("segments");
  if (!has_segments.ok()) return has_segments.status();
  if (!*has_segments) return absl::OkStatus();
  const absl::StatusOr<bool> has_sums = copy.HasTable("span_sums");
  if (!has_sums.ok()) return has_sums.status();
  if (*has_sums) {
    if (absl::Status status = copy.Execute("DELETE FROM span_sums"); !status.ok()) return status;
  }
  return copy.Execute("DELETE FROM snapshots; DELETE FROM segments; DELETE FROM dead_segments");
}

// Writes the copy to `path`, as one file without a write-ahead log.
absl::Status WriteCopy(const SqliteDatabase& log, const std::string& path) {
  if (absl::Status status = MakePrivateFile(path); !status.ok()) return status;
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> copy = SqliteDatabase::Open(path, "");
  if (!copy.ok()) return copy.status();
  if (absl::Status status = CopyPages(log, **copy); !status.ok()) return status;
  if (absl::Status status = LeaveOutSnapshots(**copy); !status.ok()) return status;
  const std::vector<std::string> faults = CheckLog(**copy, 1);
  if (!faults.empty()) {
    return absl::DataLossError(absl::StrCat(
        faults[0], "; a damaged store is not backed up: see `longstream store check`"));
  }
  return (*copy)->Execute(
      "PRAGMA synchronous = FULL; UPDATE store SET id = x''; PRAGMA journal_mode = DELETE");
}

// `flags`: of open.
absl::Status Sync(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return FileError("open " + path);
  absl::Status status = fsync(descriptor) == 0 ? absl::OkStatus() : FileError("fsync " + path);
  close(descriptor);
  return status;
}

// Removes a database and the files that SQLite keeps beside it.
void RemoveDatabase(const std::string& path) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) std::remove((path + suffix).c_str());
}

// Refuses a directory within the store, whose files the store would remove or mistake for its own.
absl::Status CheckOutside(const std::string& directory, const std::string& destination) {
  std::error_code error;
  const std::filesystem::path store = std::filesystem::weakly_canonical(directory, error);
  if (error) return absl::OkStatus();  // opening the store has told
  std::filesystem::path copy = std::filesystem::absolute(destination, error);
  if (!error) copy = std::filesystem::weakly_canonical(copy, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("store: find the directory ", destination, ": ", error.message()));
  }
  for (;; copy = copy.parent_path()) {
    if (copy == store) {
      return absl::InvalidArgumentError(absl::StrCat("store: ", destination,
                                                     " is within the store ", directory,
                                                     "; choose another directory"));
    }
    if (copy == copy.parent_path()) return absl::OkStatus();
  }
}

// Refuses a directory that has more than the rest of an interrupted backup.
absl::Status CheckEmpty(const std::string& destination) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(destination, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (absl::StartsWith(name, "log.db.part")) continue;
    return absl::AlreadyExistsError(absl::StrCat("store: ", destination, " is not empty, it has ",
                                                 name, "; a backup needs a new directory"));
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("store: read the directory ", destination, ": ", error.message()));
}

}  // namespace

absl::Status CheckTables(SqliteDatabase& log, const std::string& path) {
  absl::StatusOr<StatementUse> table =
      log.Use("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name != 'store'");
  if (!table.ok()) return CannotTell(path, table.status());
  const Stepped code = (*table)->Step();
  if (code == Stepped::kError) return CannotTell(path, log.Error("read the list of tables"));
  if (code == Stepped::kDone) return absl::OkStatus();
  const std::string name = (*table)->Bytes(0);
  absl::Status refused =
      RefuseLog(path, absl::StrCat(" is a database of another program, with a table '", name, "'"));
  if (name != "store") return refused;
  absl::StatusOr<StatementUse> row = log.Use("SELECT version, min_reader, id FROM store");
  if (absl::IsDataLoss(row.status())) return CannotTell(path, row.status());
  if (!row.ok()) return refused;  // it has other columns
  switch ((*row)->Step()) {
    case Stepped::kRow:
      return absl::OkStatus();
    case Stepped::kDone:
      return refused;
    case Stepped::kError:
      break;
  }
  return CannotTell(path, log.Error("read the version of the store"));
}

absl::StatusOr<int> LockDirectory(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("make the directory " + directory);
  }
  if (absl::Status status = CheckKinds(directory); !status.ok()) return status;
  if (absl::Status status = CheckIsNoOthers(directory); !status.ok()) return status;
  const std::string path = directory + "/LOCK";
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return FileError("open " + path);
  absl::Status status;
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    status = errno == EWOULDBLOCK
                 ? absl::FailedPreconditionError("store: another process uses " + directory)
                 : FileError("lock " + path);
  }
  if (status.ok()) status = MakePrivateFile(directory + "/log.db");
  for (const char* name : kFiles) {
    if (status.ok()) status = MakePrivate(directory + name);
  }
  if (status.ok()) return lock;
  close(lock);
  return status;
}

absl::Status FileError(const std::string& what) {
  return absl::UnavailableError(absl::StrCat("store: ", what, ": ", std::strerror(errno)));
}

absl::Status SyncDirectory(const std::string& directory) {
  return Sync(directory, O_RDONLY | O_DIRECTORY);
}

absl::StatusOr<std::string> InspectStore(const std::string& directory) {
  struct stat found {};
  if (stat(directory.c_str(), &found) != 0) {
    if (errno != ENOENT) return FileError("open " + directory);
    const size_t slash = directory.find_last_of('/');
    const std::string above = slash == std::string::npos ? "." : directory.substr(0, slash + 1);
    if (access(above.c_str(), W_OK | X_OK) != 0)
      return FileError("make the directory " + directory);
    return std::string("it will be made");
  }
  if (!S_ISDIR(found.st_mode)) {
    errno = ENOTDIR;
    return FileError("open " + directory);
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) return FileError("write to " + directory);
  if (absl::Status status = CheckKinds(directory); !status.ok()) return status;
  if (absl::Status status = CheckIsNoOthers(directory); !status.ok()) return status;
  if (!IsMarked(directory)) {
    const std::string path = directory + "/log.db";
    if (!Exists(path)) return std::string("it is empty");
    if (!BeginningOf(path + "-journal", 1).empty()) {
      return std::string("its last transaction was interrupted, and will be undone");
    }
    const absl::StatusOr<std::unique_ptr<SqliteDatabase>> log = SqliteDatabase::OpenToRead(path);
    if (log.ok() && !(*log)->HasTable("store").value_or(true)) return std::string("it is empty");
  }
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> log = OpenLog(directory);
  if (!log.ok()) return log.status();
  absl::StatusOr<StatementUse> count =
      (*log)->Use("SELECT count(*) FROM sessions WHERE close_time IS NULL");
  if (!count.ok()) return count.status();
  if ((*count)->Step() != Stepped::kRow) {
    return (*log)->Error("count the sessions of " + directory);
  }
  return absl::StrCat("it has ", (*count)->Int(0), " sessions");
}

absl::StatusOr<std::vector<std::string>> CheckStore(const std::string& directory, size_t limit,
                                                    std::shared_ptr<const SealingKeys> keys) {
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> log = OpenLog(directory);
  if (!log.ok()) return log.status();
  std::vector<std::string> faults = CheckLog(**log, limit);
  const absl::StatusOr<bool> has_segments = (*log)->HasTable("segments");
  if (!has_segments.value_or(false)) return faults;
  SegmentFiles files(NewPosixDirectory(directory + "/segments"), {.keys = std::move(keys)});
  const auto with_log = [&](const std::function<void(Database&)>& read) { read(**log); };
  CheckSegmentFiles(with_log, files, absl::Now(), limit, &faults);
  return faults;
}

absl::Status BackUpStore(const std::string& directory, const std::string& destination) {
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> log = OpenLog(directory);
  if (!log.ok()) return log.status();
  absl::Status status = CheckOutside(directory, destination);
  if (!status.ok()) return status;
  if (mkdir(destination.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("make the directory " + destination);
  }
  if (status = CheckEmpty(destination); !status.ok()) return status;
  const std::string path = destination + "/log.db", part = path + ".part";
  RemoveDatabase(part);  // a backup that was interrupted may have left it
  status = WriteCopy(**log, part);
  if (status.ok()) status = Sync(part, O_RDWR);
  if (!status.ok()) {
    RemoveDatabase(part);
    return status;
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) return FileError("rename " + part);
  status = SyncDirectory(destination);
  return status.ok() ? SyncDirectory(destination + "/..") : status;
}

}  // namespace longstream::store
