// Statements go out at once; their answers come in the same order.
#include "service/sessions/store/postgres/postgres_writer.h"

#include "absl/strings/str_cat.h"
#include "service/sessions/store/postgres/dialect.h"
#include "service/sessions/store/postgres/locks.h"
#include "service/sessions/store/postgres/postgres_reader.h"

namespace longstream::store {
namespace {

constexpr absl::string_view kWhatWriter = "make changes";
// Rollback has so long, also after the deadline.
constexpr absl::Duration kRollback = absl::Seconds(1);
// While a transaction waits for kTurnsLock alone, the changes of all servers wait behind it.
constexpr const char* kWaitAlone = "SET LOCAL lock_timeout = 200";

std::string LocksOf(StoreLocks locks) {
  std::string shared = absl::StrCat("SELECT pg_advisory_xact_lock_shared(", kTurnsLock, ")");
  const std::string segments = absl::StrCat("pg_advisory_xact_lock(", kSegmentsLock, ")");
  switch (locks) {
    case StoreLocks::kTurnsShared:
      return shared;
    case StoreLocks::kTurnsSharedAndSegments:
      return absl::StrCat(shared, ", ", segments);
    case StoreLocks::kAll:
      return absl::StrCat("SELECT pg_advisory_xact_lock(", kTurnsLock, "), ", segments);
  }
  return shared;
}

}  // namespace

void PostgresWriter::SetConnection(std::unique_ptr<Connection> connection) {
  expected_.clear();
  announced_.clear();
  prepared_.clear();
  preparing_.clear();
  numbered_ = nullptr;
  connection_ = std::move(connection);
  if (connection_ != nullptr) PQenterPipelineMode(connection_->handle());
}

void PostgresWriter::Fail(const absl::Status& status, std::string sqlstate) {
  if (!error_.ok()) return;
  error_ = status;
  sqlstate_ = std::move(sqlstate);
}

absl::Status PostgresWriter::Begin(int64_t number, StoreLocks locks, MonotonicTime deadline) {
  ForgetError();
  announced_.clear();
  preparing_.clear();
  deadline_ = deadline;
  SendSql("BEGIN ISOLATION LEVEL READ COMMITTED", {});
  if (locks == StoreLocks::kAll) SendSql(kWaitAlone, {});
  SendSql(LocksOf(locks), {});
  numbered_ = SendSql(
      "INSERT INTO writers(id, last_transaction) VALUES (CAST($1 AS BYTEA), $2)"
      " ON CONFLICT (id) DO UPDATE SET last_transaction = excluded.last_transaction,"
      " last_time = now()",
      {HexOf(id_), std::to_string(number)});
  return error_;
}

std::shared_ptr<PostgresWriter::Answer> PostgresWriter::Expect() {
  expected_.push_back(std::make_shared<Answer>());
  return expected_.back();
}

bool PostgresWriter::CanSend() {
  if (connection_ == nullptr) {
    Fail(absl::UnavailableError("store: there is no connection to PostgreSQL"), "");
  }
  return error_.ok();
}

std::shared_ptr<PostgresWriter::Answer> PostgresWriter::SendSql(
    const std::string& sql, absl::Span<const std::string> text) {
  if (!CanSend()) return nullptr;
  std::vector<const char*> values;
  for (const std::string& one : text) values.push_back(one.c_str());
  if (PQsendQueryParams(connection_->handle(), sql.c_str(), static_cast<int>(values.size()),
                        nullptr, values.data(), nullptr, nullptr, /*resultFormat=*/1) == 0) {
    Fail(connection_->LostError(kWhatWriter), "");
    return nullptr;
  }
  return Expect();
}

std::shared_ptr<PostgresWriter::Answer> PostgresWriter::Send(PostgresStatement& statement) {
  if (!CanSend()) return nullptr;
  if (prepared_.insert(statement.name()).second) {
    if (PQsendPrepare(connection_->handle(), statement.name().c_str(), statement.sql().c_str(), 0,
                      nullptr) == 0) {
      Fail(connection_->LostError(kWhatWriter), "");
      return nullptr;
    }
    preparing_.emplace_back(statement.name(), Expect());
  }
  if (!statement.Send(connection_->handle())) {
    Fail(connection_->LostError(kWhatWriter), "");
    return nullptr;
  }
  return Expect();
}

absl::Status PostgresWriter::ReadAnswer() {
  absl::StatusOr<PgResult> result = connection_->Next(deadline_, kWhatWriter);
  // Null between the answers of two statements.
  if (result.ok() && *result == nullptr) result = connection_->Next(deadline_, kWhatWriter);
  if (result.ok() && *result == nullptr) {
    result = absl::InternalError("store: PostgreSQL's library has no answer to a statement");
  }
  if (!result.ok()) {
    Fail(result.status(), "");
    return result.status();
  }
  // Kept here, because nobody else may wait for it.
  const std::shared_ptr<Answer> answer = std::move(expected_.front());
  expected_.pop_front();
  answer->result = *std::move(result);
  answer->has_arrived = true;
  switch (PQresultStatus(answer->result.get())) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_PIPELINE_SYNC:
    case PGRES_PIPELINE_ABORTED:  // because of an error before it
      return absl::OkStatus();
    default: {
      const std::string state = SqlState(answer->result.get());
      if (state.empty()) {
        absl::Status lost = connection_->LostError(kWhatWriter);
        Fail(lost, "");
        return lost;
      }
      Fail(ErrorOfResult(answer->result.get(), kWhatWriter), state);
      return absl::OkStatus();
    }
  }
}

absl::Status PostgresWriter::WaitFor(const Answer& answer) {
  if (answer.has_arrived) return absl::OkStatus();
  // Within BEGIN, this commits nothing. PostgreSQL arms idle_in_transaction_session_timeout only
  // here: without it, a server that was stopped would keep its locks.
  if (absl::Status status = SendSync(); !status.ok()) return status;
  while (!answer.has_arrived) {
    if (absl::Status status = ReadAnswer(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PostgresWriter::SendSync() {
  if (PQpipelineSync(connection_->handle()) == 0) {
    absl::Status lost = connection_->LostError(kWhatWriter);
    Fail(lost, "");
    return lost;
  }
  Expect();
  return absl::OkStatus();
}

absl::Status PostgresWriter::Sync() {
  if (connection_ == nullptr) return error_;
  if (absl::Status status = SendSync(); !status.ok()) return status;
  while (!expected_.empty()) {
    if (absl::Status status = ReadAnswer(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

PostgresWriter::Outcome PostgresWriter::Commit() {
  // The server has this transaction's lock on its row of `writers` before it can see the COMMIT. So
  // whoever has that lock later knows that the transaction has ended.
  if (error_.ok()) WaitFor(*numbered_).IgnoreError();
  if (!error_.ok()) return Outcome::kNotMade;
  connection_->ClearWarning();
  // A time-out in the middle of a COMMIT makes the server acknowledge what the standby does not
  // have.
  SendSql("SET LOCAL statement_timeout = 0", {});
  const std::shared_ptr<Answer> commit = SendSql("COMMIT", {});
  if (commit == nullptr) {
    // libpq may have sent a part of what it has gathered, but not the COMMIT.
    Disconnect();
    return Outcome::kNotMade;
  }
  const absl::Status synced = Sync();
  const bool is_made = commit->has_arrived &&
                       PQresultStatus(commit->result.get()) == PGRES_COMMAND_OK &&
                       absl::string_view(PQcmdStatus(commit->result.get())) == "COMMIT";
  if (is_made && !connection_->warned()) {
    // The end of the pipeline may have been lost behind the answer.
    if (!synced.ok()) Disconnect();
    error_ = absl::OkStatus();
    return Outcome::kCommitted;
  }
  if (is_made) {
    Fail(absl::UnavailableError("store: PostgreSQL has committed with a warning, so the standby "
                                "may not have the changes"),
         "");
    Disconnect();
    return Outcome::kUnknown;
  }
  // An error before the COMMIT, or of the COMMIT itself if it does not end the session, undoes all.
  // The COMMIT of a transaction that has failed before answers ROLLBACK.
  const bool undone = commit->has_arrived && synced.ok() &&
                      (PQresultStatus(commit->result.get()) == PGRES_PIPELINE_ABORTED ||
                       PQresultStatus(commit->result.get()) == PGRES_COMMAND_OK ||
                       SeverityOf(commit->result.get()) == "ERROR");
  if (undone) {
    Fail(absl::UnavailableError("store: PostgreSQL has undone the changes"), "");
    return Outcome::kNotMade;
  }
  const bool failed_before = !sqlstate_.empty() && !commit->has_arrived && !error_.ok();
  Disconnect();
  return failed_before ? Outcome::kNotMade : Outcome::kUnknown;
}

void PostgresWriter::Rollback() {
  if (connection_ == nullptr) return;
  const absl::Status first = std::exchange(error_, absl::OkStatus());
  const std::string state = std::exchange(sqlstate_, "");
  announced_.clear();
  deadline_ = MonotonicTime::Now() + kRollback;
  // After an error the server skips all statements up to the end of the pipeline.
  absl::Status status = Sync();
  // The server has skipped what came behind an error.
  for (const auto& [name, answer] : preparing_) {
    const bool is_prepared =
        answer->has_arrived && PQresultStatus(answer->result.get()) == PGRES_COMMAND_OK;
    if (!is_prepared) prepared_.erase(name);
  }
  error_ = absl::OkStatus();
  SendSql("ROLLBACK", {});
  if (status.ok()) status = Sync();
  if (!status.ok() || !error_.ok()) Disconnect();
  error_ = first;
  sqlstate_ = state;
}

absl::Status PostgresWriter::Execute(const char* sql) {
  SendSql(ToPostgres(sql, /*writes=*/true), {});
  return error_;
}

absl::Status PostgresWriter::BeginMigration() {
  return absl::FailedPreconditionError("store: this connection makes changes of rows only");
}

absl::StatusOr<StatementUse> PostgresWriter::Use(const char* sql) {
  if (!error_.ok()) return error_;
  return StatementUse(&statements_.Find(sql));
}

absl::Status PostgresWriter::Run(Statement& statement, absl::string_view /*what*/) {
  Send(static_cast<PostgresStatement&>(statement));
  return error_;
}

void PostgresWriter::Announce(PostgresStatement& statement) {
  if (std::shared_ptr<Answer> answer = Send(statement); answer != nullptr) {
    announced_[statement.Key()].push_back(std::move(answer));
  }
}

Stepped PostgresWriter::Step(PostgresStatement& statement) {
  if (!statement.begun) {
    statement.begun = true;
    std::shared_ptr<Answer> answer;
    const auto found = announced_.find(statement.Key());
    if (found != announced_.end() && !found->second.empty()) {
      answer = std::move(found->second.front());
      found->second.pop_front();
    } else {
      answer = Send(statement);
    }
    if (answer == nullptr || !WaitFor(*answer).ok() || !error_.ok()) return Stepped::kError;
    statement.result = answer->result.get();
    statement.keeps_result = std::move(answer);
  }
  if (statement.result == nullptr) return Stepped::kError;
  return ++statement.row < PQntuples(statement.result) ? Stepped::kRow : Stepped::kDone;
}

absl::Status PostgresWriter::Error(absl::string_view what) const {
  if (!error_.ok()) return error_;
  return absl::UnavailableError(absl::StrCat("store: ", what, ": no answer"));
}

absl::StatusOr<bool> PostgresWriter::HasTable(std::string_view /*name*/) { return true; }

const char* PostgresWriter::NextNumberQuery(std::string_view table) { return NextNumberOf(table); }

absl::Status PostgresWriter::MakeWhole(bool fails_late, absl::FunctionRef<absl::Status()> change) {
  if (!fails_late) return change();
  SendSql("SAVEPOINT change", {});
  absl::Status status = change();
  if (!error_.ok()) return error_;
  if (!status.ok()) SendSql("ROLLBACK TO SAVEPOINT change", {});
  SendSql("RELEASE SAVEPOINT change", {});
  return status.ok() ? error_ : status;
}

}  // namespace longstream::store
