// Opens the store; transactions and reads.
#include "service/sessions/store/sqlite/sqlite_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/sessions/store/sqlite/apply_change.h"
#include "service/sessions/store/sqlite/check_log.h"
#include "service/sessions/store/sqlite/check_segments.h"
#include "service/sessions/store/sqlite/collect.h"
#include "service/sessions/store/sqlite/schema.h"
#include "service/sessions/store/sqlite/snapshots.h"
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

// Turns that one transaction of Collect looks at, so that other changes wait for about 10 ms.
constexpr TurnNumber kCollectSlice = 1000;

constexpr absl::string_view kTablesMade = "log.db has been made\n";

// Remembers in the file LOCK that the tables exist.
absl::Status MarkTablesMade(int lock, const std::string& directory) {
  const ssize_t written = pwrite(lock, kTablesMade.data(), kTablesMade.size(), 0);
  if (written != static_cast<ssize_t>(kTablesMade.size()) || fsync(lock) != 0) {
    return FileError("write " + directory + "/LOCK");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Database>> Connect(const std::string& directory,
                                                  const std::string& vfs) {
  absl::StatusOr<std::unique_ptr<Database>> database = Database::Open(directory + "/log.db", vfs);
  if (!database.ok()) return database.status();
  if (absl::Status status = (*database)->Execute(kSettings); !status.ok()) return status;
  absl::StatusOr<StatementUse> mode = (*database)->Use("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  const int code = (*mode)->Step();
  if (code != SQLITE_ROW) return (*database)->Error(code, "set the journal mode");
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

// Reads the first rows of a query that selects sessions. Leaves out damaged rows.
absl::StatusOr<std::vector<SessionRow>> ReadSessions(const Database& database, Statement& select,
                                                     size_t limit) {
  std::vector<SessionRow> rows;
  while (rows.size() < limit) {
    const int code = select.Step();
    if (code == SQLITE_DONE) break;
    if (code != SQLITE_ROW) return database.Error(code, "read sessions");
    absl::StatusOr<NumberedSession> session = ReadSession(select);
    if (session.ok()) rows.push_back(std::move(session->row));
  }
  return rows;
}

// The changes were not made, so the files of their segments have no row.
void ForgetWrittenRows(absl::Span<const Change> changes) {
  for (const Change& change : changes) {
    if (const auto* add = std::get_if<AddSnapshot>(&change)) ForgetWrittenRows(*add);
  }
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
  absl::StatusOr<std::unique_ptr<Database>> writer = Connect(directory_, vfs);
  if (!writer.ok()) return writer.status();
  writer_ = *std::move(writer);
  const absl::StatusOr<bool> has_tables = HasTable(*writer_, "store");
  if (!has_tables.ok()) return has_tables.status();
  struct stat lock_file {};
  if (fstat(lock_, &lock_file) != 0) return FileError("read the size of LOCK");
  if (!*has_tables && lock_file.st_size > 0) {
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
    return writer_->Error(code, "copy the log into the file");
  }
  sqlite3_wal_hook(writer_->handle(), RememberFrames, &wal_frames_);
  for (int i = 0; i < kNumReaders; ++i) {
    absl::StatusOr<std::unique_ptr<Database>> reader = Connect(directory_, vfs);
    if (!reader.ok()) return reader.status();
    readers_.Add(*std::move(reader));
  }
  if (stat((directory_ + "/log.db").c_str(), &log_) != 0) {
    return FileError("open " + directory_ + "/log.db");
  }
  if (lock_file.st_size > 0) return absl::OkStatus();
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
    if (broken) sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
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
  if (!failed->ok() && !absl::IsUnknown(*failed)) ForgetWrittenRows(changes);
  return results;
}

absl::Status SqliteStore::CommitTransaction() {
  absl::Status status = writer_->Execute("COMMIT");
  if (status.ok() && wal_frames_ >= kLongWal) Checkpoint();
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  Break(status);
  return absl::UnknownError(status.message());
}

void SqliteStore::CopyLog() {
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
  Break(writer_->Error(code, "copy the log into the file"));
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
  return health.state == StoreState::kReadOnly ? absl::UnavailableError(health.reason)
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

absl::StatusOr<SessionRow> SqliteStore::Session(const SessionKey& key) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<NumberedSession> session = FindSession(*reader, key);
  if (!session.ok()) return session.status();
  return std::move(session->row);
}

absl::StatusOr<std::vector<SessionRow>> SqliteStore::Sessions(const std::string& tenant,
                                                              const std::optional<SessionId>& after,
                                                              size_t limit,
                                                              const std::string& model) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select =
      reader->Use("SELECT " LONGSTREAM_SESSION_COLUMNS
                  " FROM sessions WHERE tenant = ?1 AND id > ?2 AND close_time IS NULL"
                  " AND (?3 = '' OR model = ?3) ORDER BY id");
  if (!select.ok()) return select.status();
  const std::string id = after ? after->Bytes() : std::string();
  (*select)->BindText(0, tenant);
  (*select)->BindBlob(1, id);
  (*select)->BindText(2, model);
  return ReadSessions(*reader, **select, limit);
}

absl::StatusOr<std::map<std::string, uint64_t>> SqliteStore::CountSessions() {
  const ReaderPool::Reader reader = readers_.Take();
  // Reads the index open_sessions alone.
  absl::StatusOr<StatementUse> select =
      reader->Use("SELECT tenant, count(*) FROM sessions WHERE close_time IS NULL GROUP BY tenant");
  if (!select.ok()) return select.status();
  std::map<std::string, uint64_t> counts;
  int code = SQLITE_ROW;
  while ((code = (*select)->Step()) == SQLITE_ROW) {
    counts[(*select)->Bytes(0)] = static_cast<uint64_t>((*select)->Int(1));
  }
  if (code != SQLITE_DONE) return reader->Error(code, "count the sessions");
  return counts;
}

absl::StatusOr<std::vector<SessionRow>> SqliteStore::Expired(absl::Time now, size_t limit) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select = reader->Use(
      "SELECT " LONGSTREAM_SESSION_COLUMNS
      " FROM sessions WHERE close_time IS NULL AND delete_time IS NOT NULL AND delete_time <= ?1"
      " ORDER BY delete_time");
  if (!select.ok()) return select.status();
  (*select)->Bind(0, Microseconds(now));
  return ReadSessions(*reader, **select, limit);
}

absl::StatusOr<TurnRow> SqliteStore::Turn(const SessionKey& session, const TurnId& id) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select =
      reader->Use("SELECT " LONGSTREAM_TURN_COLUMNS
                  " FROM sessions s JOIN turns t ON t.session = s.number"
                  " WHERE s.tenant = ?1 AND s.id = ?2 AND s.close_time IS NULL AND t.id = ?3");
  if (!select.ok()) return select.status();
  const std::string session_id = session.id.Bytes(), turn_id = id.Bytes();
  (*select)->BindText(0, session.tenant);
  (*select)->BindBlob(1, session_id);
  (*select)->BindBlob(2, turn_id);
  const int code = (*select)->Step();
  if (code == SQLITE_DONE) {
    return absl::NotFoundError(
        absl::StrCat("store: session ", session.id.ToString(), " has no turn ", id.ToString()));
  }
  if (code != SQLITE_ROW) return reader->Error(code, "read a turn");
  absl::StatusOr<NumberedTurn> turn = ReadTurn(**select);
  if (!turn.ok()) return turn.status();
  return std::move(turn->row);
}

absl::StatusOr<TurnRow> SqliteStore::Turn(TurnNumber number) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<NumberedTurn> turn = FindTurn(*reader, number);
  if (!turn.ok()) return turn.status();
  return std::move(turn->row);
}

absl::StatusOr<std::vector<TurnNumber>> SqliteStore::TurnNumbers(const SessionKey& session,
                                                                 TurnNumber after, size_t limit) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select = reader->Use(
      "SELECT t.number FROM sessions s JOIN turns t ON t.session = s.number"
      " WHERE s.tenant = ?1 AND s.id = ?2 AND s.close_time IS NULL AND t.number > ?3"
      " ORDER BY t.number");
  if (!select.ok()) return select.status();
  const std::string session_id = session.id.Bytes();
  (*select)->BindText(0, session.tenant);
  (*select)->BindBlob(1, session_id);
  (*select)->Bind(2, after);
  std::vector<TurnNumber> numbers;
  while (numbers.size() < limit) {
    const int code = (*select)->Step();
    if (code == SQLITE_DONE) break;
    if (code != SQLITE_ROW) return reader->Error(code, "read the numbers of turns");
    numbers.push_back((*select)->Int(0));
  }
  return numbers;
}

absl::Status SqliteStore::VisitPath(TurnNumber number,
                                    const std::function<bool(const TurnRow&)>& visit) {
  return Visit(number, FindTurn, visit);
}

absl::Status SqliteStore::VisitLinks(TurnNumber number,
                                     const std::function<bool(const TurnRow&)>& visit) {
  return Visit(number, FindTurnLink, visit);
}

absl::Status SqliteStore::Visit(TurnNumber number, FindOne* find,
                                const std::function<bool(const TurnRow&)>& visit) {
  const auto read = [&](TurnNumber one) -> absl::StatusOr<TurnRow> {
    const ReaderPool::Reader reader = readers_.Take();
    absl::StatusOr<NumberedTurn> turn = find(*reader, one);
    if (!turn.ok()) return turn.status();
    return std::move(turn->row);
  };
  const TurnNumber begin = number;
  while (number != kNoTurn) {
    const absl::StatusOr<TurnRow> turn = read(number);
    if (absl::IsNotFound(turn.status()) && number != begin) {
      // Turns are collected from the youngest on, so the first turn tells whether this one was.
      const absl::StatusOr<TurnRow> first = read(begin);
      if (absl::IsNotFound(first.status()) || first->state == TurnState::kCollected) {
        return absl::NotFoundError(absl::StrCat("store: turn ", begin, " has been collected"));
      }
      return absl::DataLossError(turn.status().message());
    }
    if (!turn.ok()) return turn.status();
    if (turn->state == TurnState::kCollected) {
      return absl::NotFoundError(absl::StrCat("store: turn ", number, " has been collected"));
    }
    // A parent is older than its children, so a damaged link cannot make a circle.
    if (turn->parent >= number) {
      return absl::DataLossError(absl::StrCat("store: turn ", number, " has the parent ",
                                              turn->parent, ", which is not older"));
    }
    if (!visit(*turn)) break;
    number = turn->parent;
  }
  return absl::OkStatus();
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

absl::StatusOr<size_t> SqliteStore::CollectSlice(absl::Time before, TurnNumber first,
                                                 TurnNumber last) {
  size_t collected = 0;
  absl::Status status = Transact([&](Database& database) {
    const absl::StatusOr<size_t> turns = CollectTurns(database, before, first, last);
    if (!turns.ok()) return turns.status();
    collected = *turns;
    return first <= 1 ? RemoveClosedSessions(database, before) : absl::OkStatus();
  });
  if (!status.ok()) return status;
  return collected;
}

absl::StatusOr<size_t> SqliteStore::Collect(absl::Time before) {
  TurnNumber last = kNoTurn;
  {
    const ReaderPool::Reader reader = readers_.Take();
    const absl::StatusOr<TurnNumber> youngest = LastTurn(*reader);
    if (!youngest.ok()) return youngest.status();
    last = *youngest;
  }
  size_t collected = 0;
  do {
    const absl::StatusOr<size_t> of_slice = CollectSlice(before, last - kCollectSlice + 1, last);
    if (!of_slice.ok()) return of_slice.status();
    collected += *of_slice;
    last -= kCollectSlice;
  } while (last > 0);
  if (absl::Status status = ReleaseAllForgotten(); !status.ok()) return status;
  return collected;
}

absl::Status SqliteStore::Compact() {
  absl::MutexLock lock(&write_mutex_);
  if (absl::Status broken = Broken(); !broken.ok()) return broken;
  if (absl::Status status = writer_->Execute("VACUUM"); !status.ok()) return status;
  const int code = sqlite3_wal_checkpoint_v2(writer_->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE,
                                             nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : writer_->Error(code, "copy the log into the file");
}

absl::StatusOr<std::string> SqliteStore::Id() {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select = reader->Use("SELECT lower(hex(id)) FROM store");
  if (!select.ok()) return select.status();
  const int code = (*select)->Step();
  if (code != SQLITE_ROW) return reader->Error(code, "read the store's id");
  return (*select)->Bytes(0);
}

absl::StatusOr<std::vector<std::string>> SqliteStore::Check(size_t limit) {
  std::vector<std::string> faults;
  {
    const ReaderPool::Reader reader = readers_.Take();
    faults = CheckLog(*reader, limit);
  }
  const WithDatabase with_reader = [this](const std::function<void(Database&)>& read) {
    const ReaderPool::Reader reader = readers_.Take();
    read(*reader);
  };
  CheckSegmentFiles(with_reader, files_, absl::Now(), limit, &faults);
  return faults;
}

}  // namespace longstream::store
