// One statement at a time, in single-row mode.
#include "service/sessions/store/postgres/postgres_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/postgres/dialect.h"
#include "service/sessions/store/postgres/locks.h"

namespace longstream::store {

const char* NextNumberOf(std::string_view table) {
  return table == "turns" ? "SELECT nextval('turns_number_seq')"
                          : "SELECT nextval('sessions_number_seq')";
}

absl::StatusOr<std::unique_ptr<Connection>> ReconnectGate::Open(const PostgresTarget& target) {
  {
    absl::MutexLock lock(&mutex_);
    if (!last_error_.ok()) {
      if (MonotonicTime::Now() < next_try_) return last_error_;
      next_try_ = MonotonicTime::Now() + pause_.Next();
    }
  }
  absl::StatusOr<std::unique_ptr<Connection>> connection = Connection::Open(target);
  absl::MutexLock lock(&mutex_);
  last_error_ = connection.status();
  if (connection.ok()) {
    pause_.Reset();
  } else {
    next_try_ = MonotonicTime::Now() + pause_.Next();
  }
  return connection;
}

absl::StatusOr<Connection*> PostgresReader::Connect() {
  if (connection_ != nullptr && (in_transaction_ || busy_ || !connection_->IsStale())) {
    return connection_.get();
  }
  connection_ = nullptr;
  prepared_.clear();
  in_transaction_ = busy_ = false;
  absl::StatusOr<std::unique_ptr<Connection>> connection = gate_->Open(target_);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  return connection_.get();
}

absl::Status PostgresReader::Execute(const char* sql) {
  const absl::StatusOr<Connection*> connection = Connect();
  if (!connection.ok()) return connection.status();
  const std::string text = ToPostgres(sql, writes_);
  return (*connection)->Execute(text, Deadline(), "execute a statement");
}

absl::Status PostgresReader::BeginMigration() {
  const std::string begin = absl::StrCat("BEGIN; SELECT pg_advisory_xact_lock(", kSchemaLock, ")");
  absl::Status status = Execute(begin.c_str());
  in_transaction_ = status.ok();
  return status;
}

absl::StatusOr<StatementUse> PostgresReader::Use(const char* sql) {
  if (absl::Status status = Connect().status(); !status.ok()) return status;
  PostgresStatement& statement = statements_.Find(sql);
  if (absl::Status status = Prepare(statement); !status.ok()) return status;
  return StatementUse(&statement);
}

absl::Status PostgresReader::Prepare(const PostgresStatement& statement) {
  if (prepared_.contains(statement.name())) return absl::OkStatus();
  const absl::string_view what = "prepare a statement";
  if (PQsendPrepare(connection_->handle(), statement.name().c_str(), statement.sql().c_str(), 0,
                    nullptr) == 0) {
    return connection_->LostError(what);
  }
  absl::Status status;
  while (true) {
    const absl::StatusOr<PgResult> result = connection_->Next(Deadline(), what);
    if (!result.ok()) {
      connection_ = nullptr;
      return result.status();
    }
    if (*result == nullptr) break;
    if (PQresultStatus(result->get()) != PGRES_COMMAND_OK) {
      status = ErrorOfResult(result->get(), what);
    }
  }
  if (status.ok()) prepared_.insert(statement.name());
  return status;
}

absl::Status PostgresReader::Run(Statement& statement, absl::string_view what) {
  return statement.Step() == Stepped::kError ? Error(what) : absl::OkStatus();
}

absl::Status PostgresReader::Error(absl::string_view what) const {
  return absl::Status(error_.code(), absl::StrCat("store: ", what, ": ", error_.message()));
}

absl::StatusOr<bool> PostgresReader::HasTable(std::string_view name) {
  absl::StatusOr<StatementUse> tables =
      Use("SELECT count(*) FROM pg_catalog.pg_tables"
          " WHERE schemaname = 'longstream' AND tablename = ?1");
  if (!tables.ok()) return tables.status();
  (*tables)->BindText(0, name);
  if ((*tables)->Step() != Stepped::kRow) return Error("read the list of tables");
  return (*tables)->Int(0) != 0;
}

const char* PostgresReader::NextNumberQuery(std::string_view table) { return NextNumberOf(table); }

absl::Status PostgresReader::Begin(PostgresStatement& statement) {
  if (connection_ == nullptr) return absl::UnavailableError("the connection is lost");
  if (!statement.Send(connection_->handle())) return connection_->LostError("send a statement");
  PQsetSingleRowMode(connection_->handle());
  busy_ = true;
  return absl::OkStatus();
}

absl::Status PostgresReader::ReadResult() {
  const absl::string_view what = "execute a statement";
  absl::StatusOr<PgResult> result = connection_->Next(Deadline(), what);
  if (!result.ok()) {
    const bool is_lost = PQstatus(connection_->handle()) != CONNECTION_OK;
    busy_ = false;
    connection_ = nullptr;
    lost_ = is_lost;
    return result.status();
  }
  result_ = *std::move(result);
  if (result_ == nullptr) return absl::OkStatus();
  const ExecStatusType status = PQresultStatus(result_.get());
  if (status == PGRES_SINGLE_TUPLE || status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
    return absl::OkStatus();
  }
  const std::string state = SqlState(result_.get());
  absl::Status error =
      state.empty() ? connection_->LostError(what) : ErrorOfResult(result_.get(), what);
  Drain();
  if (NeedsNewConnection(state)) {
    connection_ = nullptr;
    lost_ = true;
  }
  return error;
}

Stepped PostgresReader::Step(PostgresStatement& statement) {
  const bool first = !statement.begun;
  statement.begun = true;
  lost_ = false;
  absl::Status status;
  if (first) status = Begin(statement);
  if (status.ok()) {
    if (!busy_) return Stepped::kDone;
    status = ReadResult();
  }
  // A server that was started again has closed all connections. No row has been read, so the
  // statement can be made on another one.
  if (!status.ok() && first && lost_ && !in_transaction_) {
    status = Connect().status();
    if (status.ok()) status = Prepare(statement);
    if (status.ok()) status = Begin(statement);
    if (status.ok()) status = ReadResult();
  }
  if (!status.ok()) {
    error_ = std::move(status);
    return Stepped::kError;
  }
  if (result_ != nullptr && PQresultStatus(result_.get()) == PGRES_SINGLE_TUPLE) {
    statement.result = result_.get();
    statement.row = 0;
    return Stepped::kRow;
  }
  Drain();
  return Stepped::kDone;
}

void PostgresReader::Drain() {
  while (busy_ && connection_ != nullptr) {
    const absl::StatusOr<PgResult> rest = connection_->Next(Deadline(), "end a statement");
    if (rest.ok() && *rest == nullptr) busy_ = false;
    const bool has_rows =
        rest.ok() && *rest != nullptr && PQresultStatus(rest->get()) == PGRES_SINGLE_TUPLE;
    if (!rest.ok() || has_rows) {  // there may be a whole table still
      busy_ = false;
      connection_ = nullptr;
    }
  }
}

void PostgresReader::End(PostgresStatement& statement) {
  if (statement.begun) Drain();
  result_ = nullptr;
}

}  // namespace longstream::store
