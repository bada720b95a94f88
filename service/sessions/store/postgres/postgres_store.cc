// Opens the store, and makes transactions until they have an outcome.
#include "service/sessions/store/postgres/postgres_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/clock/growing_pause.h"
#include "service/sessions/session_id.h"
#include "service/sessions/store/postgres/no_directory.h"
#include "service/sessions/store/sql/apply_change.h"
#include "service/sessions/store/sql/check_log.h"
#include "service/sessions/store/sql/check_segments.h"
#include "service/sessions/store/sql/find_rows.h"
#include "service/sessions/store/sql/schema.h"

namespace longstream::store {
namespace {

// So that other changes, of all servers, wait for less than 100 ms.
constexpr TurnNumber kCollectSlice = 100;
// Changes whose reads are announced together.
constexpr size_t kMaxAnnounced = 500;
// A conflict with another server is over after this many tries.
constexpr int kMaxConflicts = 3;
constexpr absl::Duration kMigration = absl::Minutes(10);
// A file without a row that is older than this will not get one.
constexpr absl::Duration kOrphan = absl::Hours(1);
constexpr absl::string_view kNoStore = "store: the database has no store";

PostgresTarget TargetOf(const PostgresStore::Options& options) {
  return {.url = options.url, .password = options.password, .timeout = options.commit_timeout};
}

// The name tells which of the server's processes are this writer's.
std::string WriterName(const std::string& id) {
  return absl::StrCat("longstream-writer-", absl::BytesToHexString(id));
}

std::unique_ptr<SegmentDirectory> DirectoryOf(const PostgresStore::Options& options) {
  if (options.segments.empty()) return std::make_unique<NoDirectory>();
  return NewPosixDirectory(options.segments);
}

// Its parent must exist.
absl::Status MakeDirectory(const std::string& path) {
  if (path.empty() || mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("store: make the directory ", path, ": ", std::strerror(errno)));
}

// A status whose message also names the server.
absl::Status AtServer(const absl::Status& status, const std::string& name) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; the store is ", name));
}

// Connects and checks the server. Returns the version of the tables; 0: there are none.
absl::StatusOr<int64_t> VersionAt(PostgresReader& reader, const PostgresStore::Options& options) {
  const absl::StatusOr<Connection*> connection = reader.Connect();
  if (!connection.ok()) return connection.status();
  const MonotonicTime deadline = MonotonicTime::Now() + options.commit_timeout;
  absl::Status status = CheckServer(**connection, options.require_standby, deadline).status();
  if (!status.ok()) return status;
  return StoredVersion(reader, SchemaSteps().size());
}

bool HasSnapshot(absl::Span<const Change> changes) {
  return std::ranges::any_of(
      changes, [](const Change& one) { return std::holds_alternative<AddSnapshot>(one); });
}

}  // namespace

PostgresStore::PostgresStore(const Options& options, std::string id)
    : SqlStore(DirectoryOf(options), options.sealing, kCollectSlice),
      options_(options),
      id_(std::move(id)),
      target_(TargetOf(options)),
      writer_(id_),
      watch_([this] { Watch(); }) {}

PostgresStore::~PostgresStore() {
  StopWaiting();
  watch_.join();
}

absl::StatusOr<std::unique_ptr<PostgresStore>> PostgresStore::Open(const Options& options) {
  const absl::StatusOr<std::string> name = PublicName(options.url);
  if (!name.ok()) return name.status();
  std::unique_ptr<PostgresStore> store(new PostgresStore(options, SessionId::Random().Bytes()));
  absl::Status status = MakeDirectory(options.segments);
  if (status.ok()) status = store->Prepare(/*make_tables=*/true);
  if (!status.ok()) return AtServer(status, *name);
  store->RemoveOrphans();
  return store;
}

absl::StatusOr<std::unique_ptr<PostgresStore>> PostgresStore::OpenExisting(const Options& options) {
  const absl::StatusOr<std::string> name = PublicName(options.url);
  if (!name.ok()) return name.status();
  std::unique_ptr<PostgresStore> store(new PostgresStore(options, SessionId::Random().Bytes()));
  absl::Status status = store->Prepare(/*make_tables=*/false);
  if (!status.ok()) return AtServer(status, *name);
  return store;
}

absl::StatusOr<std::string> PostgresStore::Inspect(const Options& options) {
  const absl::StatusOr<std::string> name = PublicName(options.url);
  if (!name.ok()) return name.status();
  ReconnectGate gate;
  PostgresReader reader(TargetOf(options), &gate);
  const absl::StatusOr<int64_t> version = VersionAt(reader, options);
  if (!version.ok()) return AtServer(version.status(), *name);
  if (*version == 0) return std::string("its tables will be made");
  absl::StatusOr<StatementUse> count =
      reader.Use("SELECT count(*) FROM sessions WHERE close_time IS NULL");
  if (!count.ok()) return AtServer(count.status(), *name);
  if ((*count)->Step() != Stepped::kRow) return AtServer(reader.Error("count sessions"), *name);
  return absl::StrCat("it has ", (*count)->Int(0), " sessions");
}

absl::StatusOr<std::vector<std::string>> PostgresStore::CheckExisting(const Options& options,
                                                                      size_t limit) {
  const absl::StatusOr<std::string> name = PublicName(options.url);
  if (!name.ok()) return name.status();
  ReconnectGate gate;
  PostgresReader reader(TargetOf(options), &gate);
  const absl::StatusOr<int64_t> version = VersionAt(reader, options);
  if (!version.ok()) return AtServer(version.status(), *name);
  if (*version == 0) return AtServer(absl::UnavailableError(kNoStore), *name);
  std::vector<std::string> faults = CheckLog(reader, limit);
  const absl::StatusOr<bool> has_segments = reader.HasTable("segments");
  if (!has_segments.ok()) return AtServer(has_segments.status(), *name);
  if (!*has_segments) return faults;
  if (options.segments.empty()) {
    // Without their directory, each file would seem to be lost.
    absl::StatusOr<StatementUse> files =
        reader.Use("SELECT count(*) FROM segments WHERE file IS NOT NULL");
    if (!files.ok()) return AtServer(files.status(), *name);
    if ((*files)->Step() != Stepped::kRow) return AtServer(reader.Error("count files"), *name);
    if ((*files)->Int(0) == 0) return faults;
    return absl::FailedPreconditionError(absl::StrCat(
        faults.empty() ? "the rows have no damage, but " : absl::StrCat(faults.front(), "; also, "),
        (*files)->Int(0),
        " segments are in files; name their directory, that of store.segments, with --segments"));
  }
  SegmentFiles files(DirectoryOf(options), options.sealing);
  const auto with_reader = [&](const std::function<void(Database&)>& read) { read(reader); };
  CheckSegmentFiles(with_reader, files, absl::Now(), limit, &faults);
  return faults;
}

absl::Status PostgresStore::Prepare(bool make_tables) {
  absl::MutexLock lock(&write_mutex_);
  PostgresTarget target = target_;
  target.timeout = std::max(target.timeout, kMigration);
  PostgresReader migrator(target, &gate_, /*writes=*/true);
  const absl::StatusOr<Connection*> connection = migrator.Connect();
  if (!connection.ok()) return connection.status();
  const MonotonicTime deadline = MonotonicTime::Now() + target.timeout;
  const absl::StatusOr<ServerIdentity> server =
      CheckServer(**connection, options_.require_standby, deadline);
  if (!server.ok()) return server.status();
  if (!make_tables) {
    const absl::StatusOr<bool> has_tables = migrator.HasTable("store");
    if (!has_tables.ok()) return has_tables.status();
    if (!*has_tables) return absl::UnavailableError(kNoStore);
  }
  if (absl::Status status = Migrate(migrator); !status.ok()) return status;
  // A copy that was restored on other servers gets another id.
  const std::string& system = server->system_identifier;
  absl::Status status =
      (*connection)
          ->Query(
              "UPDATE store SET system_identifier = $1, id = CASE WHEN system_identifier = '' THEN"
              " id ELSE decode(replace(gen_random_uuid()::text, '-', ''), 'hex') END"
              " WHERE system_identifier <> $1",
              {system}, deadline, "write the store's system_identifier")
          .status();
  if (!status.ok()) return status;
  status = (*connection)
               ->Query("INSERT INTO writers(id, last_transaction) VALUES (CAST($1 AS BYTEA), 0)",
                       {HexOf(id_)}, deadline, "add a writer")
               .status();
  if (!status.ok()) return status;
  status = migrator.Execute("DELETE FROM writers WHERE last_time < now() - interval '400 days'");
  if (!status.ok()) return status;
  for (int i = 0; i < kNumReaders; ++i) {
    readers_.Add(std::make_unique<PostgresReader>(target_, &gate_));
  }
  {
    const ReaderPool::Reader reader = readers_.Take();
    if (absl::Status counted = FileBytes(*reader).status(); !counted.ok()) return counted;
  }
  return ConnectWriter();
}

absl::StatusOr<std::unique_ptr<Connection>> PostgresStore::OpenChecked() {
  PostgresTarget target = target_;
  target.application_name = WriterName(id_);
  absl::StatusOr<std::unique_ptr<Connection>> connection = Connection::Open(target);
  if (!connection.ok()) return connection.status();
  const MonotonicTime deadline = MonotonicTime::Now() + target_.timeout;
  const absl::StatusOr<ServerIdentity> server =
      CheckServer(**connection, options_.require_standby, deadline);
  if (!server.ok()) return server.status();
  // The setting stays as it was checked, also if the server's is changed meanwhile. The former
  // connection's transaction must not hold its locks any longer. But one that is in its COMMIT goes
  // on: if it waits for the standby, to end it would show others what the standby does not have.
  const absl::StatusOr<PgResult> ended =
      (*connection)
          ->Query(
              "SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), "
              "false),"
              " (SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
              "  WHERE application_name = $1 AND pid <> pg_backend_pid()"
              "  AND wait_event IS DISTINCT FROM 'SyncRep'"
              "  AND (state IS DISTINCT FROM 'active' OR query IS DISTINCT FROM 'COMMIT')),"
              " (SELECT encode(id, 'hex') FROM store)",
              {target.application_name}, deadline, "end the former connection");
  if (!ended.ok()) return ended.status();
  const std::string store_id = PQgetvalue(ended->get(), 0, 2);
  if (absl::Status same = CompareId(store_id); !same.ok()) return same;
  const ServerIdentity before = std::exchange(server_, *server);
  const bool is_other = !before.system_identifier.empty() && !(before == *server);
  if (is_other && options_.on_other_server) options_.on_other_server(before, *server);
  return connection;
}

absl::Status PostgresStore::ConnectWriter() {
  absl::StatusOr<std::unique_ptr<Connection>> connection = OpenChecked();
  if (!connection.ok()) return connection.status();
  writer_.SetConnection(*std::move(connection));
  return absl::OkStatus();
}

std::vector<absl::StatusOr<Applied>> PostgresStore::Apply(absl::Span<const Change> changes) {
  absl::MutexLock lock(&write_mutex_);
  std::vector<absl::StatusOr<Applied>> results;
  const absl::Status failed = ApplyTogether(changes, &results);
  const bool may_be_one = absl::IsResourceExhausted(failed) || absl::IsInvalidArgument(failed) ||
                          absl::IsDataLoss(failed) || absl::IsAlreadyExists(failed);
  if (may_be_one && changes.size() > 1) {
    // The others need not suffer from the change that PostgreSQL refuses.
    bool has_answers = true;
    for (size_t i = 0; i < changes.size(); ++i) {
      if (!has_answers) {
        ForgetRows(changes.subspan(i, 1));
        results[i] = absl::UnavailableError(
            "store: PostgreSQL has not taken a change before this one; nothing was changed");
        continue;
      }
      std::vector<absl::StatusOr<Applied>> result;
      const absl::Status made = ApplyTogether(changes.subspan(i, 1), &result);
      results[i] = std::move(result[0]);
      // Each of the rest would take a commit_timeout of its own.
      has_answers = !absl::IsUnavailable(made) && !absl::IsUnknown(made);
    }
  }
  return results;
}

absl::Status PostgresStore::ApplyTogether(absl::Span<const Change> changes,
                                          std::vector<absl::StatusOr<Applied>>* results) {
  PostgresWriter* const writer = &writer_;
  const auto apply = [&]() -> absl::Status {
    results->clear();
    while (results->size() < changes.size()) {
      const absl::Span<const Change> next = changes.subspan(results->size(), kMaxAnnounced);
      writer->ForgetAnnounced();
      const size_t announced = AnnounceReads(*writer, next);
      for (const Change& change : next.subspan(0, announced)) {
        results->push_back(ApplyChange(*writer, change));
        if (!writer->error().ok()) return writer->error();
      }
    }
    return absl::OkStatus();
  };
  absl::Status status = RunTransaction(
      HasSnapshot(changes) ? StoreLocks::kTurnsSharedAndSegments : StoreLocks::kTurnsShared, apply);
  if (status.ok()) return status;
  results->assign(changes.size(), status);
  if (!absl::IsUnknown(status)) ForgetRows(changes);
  return status;
}

absl::Status PostgresStore::Transact(const std::function<absl::Status(Database&)>& change) {
  const MonotonicTime deadline = MonotonicTime::Now() + options_.commit_timeout;
  GrowingPause pause(absl::Milliseconds(100), absl::Seconds(1));
  while (true) {
    {
      absl::MutexLock lock(&write_mutex_);
      PostgresWriter* const writer = &writer_;
      absl::Status status = RunTransaction(StoreLocks::kAll, [&] { return change(*writer); });
      if (status.ok() || !writer_.LockIsHeld()) return status;
      if (stopping() || MonotonicTime::Now() >= deadline) return status;
    }
    Sleep(pause.Next());  // changes go on meanwhile
  }
}

absl::Status PostgresStore::RunTransaction(StoreLocks locks,
                                           absl::FunctionRef<absl::Status()> change) {
  const MonotonicTime deadline = MonotonicTime::Now() + options_.commit_timeout;
  GrowingPause pause(absl::Milliseconds(10), absl::Milliseconds(500));
  int conflicts = 0;
  while (true) {
    bool may_repeat = false;
    absl::Status status = TryTransaction(locks, deadline, change, &may_repeat);
    const bool cannot_be_made = !may_repeat && absl::IsUnavailable(status) && !writer_.error().ok();
    if (status.ok() || absl::IsResourceExhausted(status) || cannot_be_made) NoteResult(status);
    if (!may_repeat) return status;
    // Others make changes, so the store is well. Transact tries again.
    if (locks == StoreLocks::kAll && writer_.LockIsHeld()) return status;
    if (absl::IsAlreadyExists(status) && ++conflicts > kMaxConflicts) return status;
    const absl::Duration next = pause.Next();
    if (stopping() || MonotonicTime::Now() + next >= deadline) {
      NoteResult(status);
      return absl::UnavailableError(absl::StrCat(status.message(), "; nothing was changed"));
    }
    Sleep(next);
  }
}

absl::Status PostgresStore::TryTransaction(StoreLocks locks, MonotonicTime deadline,
                                           absl::FunctionRef<absl::Status()> change,
                                           bool* may_repeat) {
  writer_.ForgetError();
  if (!writer_.IsConnected()) {
    if (absl::Status connected = ConnectWriter(); !connected.ok()) {
      *may_repeat = true;
      absl::Status status = absl::UnavailableError(connected.message());
      NoteResult(status);
      return status;
    }
  }
  const int64_t number = ++last_number_;
  writer_.Begin(number, locks, deadline).IgnoreError();
  absl::Status status = writer_.error().ok() ? change() : writer_.error();
  if (writer_.error().ok()) {
    if (!status.ok()) {
      writer_.Rollback();
      return status;
    }
    const PostgresWriter::Outcome end = writer_.Commit();
    if (end == PostgresWriter::Outcome::kCommitted) return absl::OkStatus();
    if (end == PostgresWriter::Outcome::kUnknown) {
      absl::Status unknown = writer_.error();
      if (options_.on_unknown) options_.on_unknown();
      const absl::StatusOr<bool> was_committed = Settle(number);
      if (!was_committed.ok()) return was_committed.status();
      if (*was_committed) return absl::OkStatus();
      *may_repeat = true;
      return unknown;
    }
  }
  status = writer_.error();
  const std::string state = writer_.sqlstate();
  *may_repeat = IsTransient(state);
  if (NeedsNewConnection(state)) {
    writer_.Disconnect();
  } else {
    writer_.Rollback();
  }
  return status;
}

absl::StatusOr<bool> PostgresStore::Settle(int64_t number) {
  GrowingPause pause(absl::Milliseconds(10), absl::Seconds(2));
  while (true) {
    absl::StatusOr<bool> was_committed = WasCommitted(number);
    if (was_committed.ok()) return was_committed;
    NoteResult(absl::UnavailableError(was_committed.status().message()));
    if (stopping()) {
      return absl::UnknownError(absl::StrCat(was_committed.status().message(),
                                             "; the outcome of the last changes is not known"));
    }
    Sleep(pause.Next());
  }
}

absl::StatusOr<bool> PostgresStore::WasCommitted(int64_t number) {
  writer_.Disconnect();
  absl::StatusOr<std::unique_ptr<Connection>> opened = OpenChecked();
  if (!opened.ok()) return opened.status();
  Connection& connection = **opened;
  const absl::string_view what = "ask for the outcome of a transaction";
  const MonotonicTime deadline = MonotonicTime::Now() + 2 * options_.commit_timeout;
  absl::Status status = connection.Execute("BEGIN", deadline, what);
  if (!status.ok()) return status;
  // Waits until the transaction has ended, because it has written this row. The write makes the
  // COMMIT below wait for the standby, which then has all that was committed before, too.
  const absl::StatusOr<PgResult> row = connection.Query(
      "INSERT INTO writers(id, last_transaction) VALUES (CAST($1 AS BYTEA), 0)"
      " ON CONFLICT (id) DO UPDATE SET last_time = now() RETURNING last_transaction",
      {HexOf(id_)}, deadline, what);
  if (!row.ok()) return row.status();
  const bool was_committed = std::to_string(number) == PQgetvalue(row->get(), 0, 0);
  status = connection.Execute("SET LOCAL statement_timeout = 0", deadline, what);
  if (!status.ok()) return status;
  connection.ClearWarning();
  status = connection.Execute("COMMIT", deadline, what);
  if (!status.ok()) return status;
  if (connection.warned()) {
    return absl::UnavailableError(absl::StrCat("store: ", what, ": the standby did not answer"));
  }
  writer_.SetConnection(*std::move(opened));
  return was_committed;
}

absl::StatusOr<uint64_t> PostgresStore::FileBytes(Database& database) {
  absl::StatusOr<StatementUse> select = database.Use(
      "SELECT CAST((SELECT coalesce(sum(bytes), 0) FROM segments WHERE file IS NOT NULL)"
      " + (SELECT coalesce(sum(bytes), 0) FROM dead_segments) AS INTEGER),"
      " CAST((SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n"
      "  ON n.oid = c.relnamespace WHERE n.nspname = 'longstream' AND c.relkind = 'r')"
      "  AS INTEGER)");
  if (!select.ok()) return select.status();
  if ((*select)->Step() != Stepped::kRow) return database.Error("add up files of segments");
  absl::MutexLock lock(&bytes_mutex_);
  file_bytes_ = (*select)->Int(0);
  log_bytes_ = (*select)->Int(1);
  added_bytes_ = static_cast<int64_t>(files_.bytes());
  return static_cast<uint64_t>(file_bytes_);
}

// If this fails, the store works all the same, and some files stay until the next start.
void PostgresStore::RemoveOrphans() {
  absl::StatusOr<std::vector<std::string>> names = files_.directory().List();
  if (!names.ok() || names->empty()) return;
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<NamedFiles> named = FilesWithRows(*reader);
  if (!named.ok()) return;
  for (const std::string& name : SegmentNamesWithout(*std::move(names), std::move(named->names))) {
    if (IsOrphan(files_.directory(), name, absl::Now() - kOrphan)) {
      files_.directory().Remove(name).IgnoreError();
    }
  }
}

std::vector<StoreBytes> PostgresStore::Bytes() const {
  absl::MutexLock lock(&bytes_mutex_);
  const int64_t since = static_cast<int64_t>(files_.bytes()) - added_bytes_;
  return {{"log", static_cast<uint64_t>(log_bytes_)},
          {"segments", static_cast<uint64_t>(std::max<int64_t>(0, file_bytes_ + since))}};
}

}  // namespace longstream::store
