// Whether changes can be made, and the thread that finds it out where nobody makes any.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/clock/growing_pause.h"
#include "service/sessions/store/postgres/postgres_store.h"

namespace longstream::store {
namespace {

// The tables that changes need, and the rights to change them.
constexpr const char* kUsableTables =
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'longstream' AND c.relname IN ('sessions', 'turns', 'segments', "
    "'snapshots')"
    " AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')"
    " AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')";
constexpr absl::string_view kWhatPulse = "try to make changes";

// How often the database is asked whether it is there, and for how long an answer may take. Without
// changes nothing else would notice. A server that is started again misses one question.
constexpr absl::Duration kPulse = absl::Seconds(2);
constexpr int kMissed = 2;

absl::Status Ask(PostgresReader& reader) {
  absl::StatusOr<StatementUse> question = reader.Use("SELECT 1");
  if (!question.ok()) return question.status();
  return (*question)->Step() == Stepped::kRow ? absl::OkStatus()
                                              : reader.Error("ask whether the database is there");
}

}  // namespace

void PostgresStore::StopWaiting() {
  absl::MutexLock lock(&state_mutex_);
  stopping_ = true;
}

bool PostgresStore::stopping() const {
  absl::MutexLock lock(&state_mutex_);
  return stopping_;
}

void PostgresStore::Sleep(absl::Duration duration) {
  absl::MutexLock lock(&state_mutex_);
  state_mutex_.AwaitWithTimeout(absl::Condition(&stopping_), duration);
}

StoreHealth PostgresStore::Health() const {
  absl::MutexLock lock(&state_mutex_);
  return health_;
}

void PostgresStore::NoteResult(const absl::Status& status) {
  absl::MutexLock lock(&state_mutex_);
  if (status.ok()) {
    health_ = {};
  } else {
    health_ = {absl::IsResourceExhausted(status) ? StoreState::kFull : StoreState::kUnreachable,
               std::string(status.message())};
  }
}

absl::Status PostgresStore::CompareId(const std::string& id) {
  absl::MutexLock lock(&state_mutex_);
  if (store_id_.empty()) store_id_ = id;
  if (store_id_ == id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("store: the database has another store now, with the id ", id, ", not ",
                   store_id_, "; start the server again to use it"));
}

absl::Status PostgresStore::TryToWrite() {
  const absl::StatusOr<std::unique_ptr<Connection>> opened = Connection::Open(target_);
  if (!opened.ok()) return opened.status();
  Connection& connection = **opened;
  const MonotonicTime deadline = MonotonicTime::Now() + target_.timeout;
  absl::Status status = CheckServer(connection, options_.require_standby, deadline).status();
  if (!status.ok()) return status;
  const absl::StatusOr<PgResult> id =
      connection.Query("SELECT encode(id, 'hex') FROM store", {}, deadline, kWhatPulse);
  if (!id.ok()) return id.status();
  if (PQntuples(id->get()) != 1) return absl::UnavailableError("store: the store has no id");
  if (status = CompareId(PQgetvalue(id->get(), 0, 0)); !status.ok()) return status;
  const absl::StatusOr<PgResult> usable = connection.Query(kUsableTables, {}, deadline, kWhatPulse);
  if (!usable.ok()) return usable.status();
  if (absl::string_view(PQgetvalue(usable->get(), 0, 0)) != "4") {
    return absl::UnavailableError("store: tables are missing, or must not be changed");
  }
  connection.ClearWarning();
  status = connection
               .Query(
                   "INSERT INTO writers(id, last_transaction) VALUES (CAST($1 AS BYTEA), 0)"
                   " ON CONFLICT (id) DO UPDATE SET last_time = now()",
                   {HexOf(id_)}, deadline, kWhatPulse)
               .status();
  if (status.ok() && connection.warned()) {
    return absl::UnavailableError("store: the standby did not answer");
  }
  return status;
}

void PostgresStore::AwaitFault(absl::Duration timeout) {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(state_mutex_) {
    return stopping_ || health_.state != StoreState::kOk;
  };
  absl::MutexLock lock(&state_mutex_);
  state_mutex_.AwaitWithTimeout(absl::Condition(&has_work), timeout);
}

void PostgresStore::Watch() {
  PostgresTarget target = target_;
  target.timeout = std::min(target.timeout, kPulse);
  ReconnectGate gate;
  PostgresReader reader(target, &gate);
  int missed = 0;
  GrowingPause pause(absl::Milliseconds(50), absl::Seconds(2));
  while (!stopping()) {
    if (Health().state != StoreState::kOk) {
      Sleep(pause.Next());
      if (!stopping() && TryToWrite().ok()) NoteResult(absl::OkStatus());
      missed = 0;
      continue;
    }
    pause.Reset();
    AwaitFault(kPulse);
    if (stopping() || Health().state != StoreState::kOk) continue;
    const absl::Status answer = Ask(reader);
    missed = answer.ok() ? 0 : missed + 1;
    if (missed == kMissed) NoteResult(absl::UnavailableError(answer.message()));
  }
}

}  // namespace longstream::store
