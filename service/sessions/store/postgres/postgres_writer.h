// The connection that makes transactions. It sends many statements before it waits for an answer.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_WRITER_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/store/postgres/connection.h"
#include "service/sessions/store/postgres/statement.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// Which of the store's locks (locks.h) a transaction takes.
enum class StoreLocks {
  kTurnsShared,             // changes of the log
  kTurnsSharedAndSegments,  // the same, with snapshots
  kAll,                     // collection. Waits for them for a moment only, see LockIsHeld
};

// A transaction costs about two round trips, however many changes it has: the announced reads go
// out together, and so do all writes and the COMMIT (libpq's pipeline mode). A read that was not
// announced costs one more. The error of a write is known at the next read, or at the end.
//
// After the first error no statement of the transaction is executed any more; call Rollback.
class PostgresWriter final : public Database, private StatementRunner {
 public:
  // `id`: 16 bytes that name this writer in the table `writers`.
  explicit PostgresWriter(std::string id) : id_(std::move(id)) {}

  // Uses the connection from now on.
  void SetConnection(std::unique_ptr<Connection> connection);
  void Disconnect() { SetConnection(nullptr); }
  // Whether there is a connection that the server has not closed.
  bool IsConnected() const { return connection_ != nullptr && !connection_->IsStale(); }

  // Begins transaction `number`, which ends by `deadline`.
  absl::Status Begin(int64_t number, StoreLocks locks, MonotonicTime deadline);

  enum class Outcome {
    kCommitted,  // durable, also on the synchronous standby if the server has one
    kNotMade,    // error() says why
    kUnknown,    // likewise; the server may have committed
  };
  // Commits the transaction. After kUnknown there is no connection any more.
  Outcome Commit();
  // Undoes the transaction. If that fails, there is no connection any more, and the server undoes
  // it.
  void Rollback();

  // Why the transaction cannot go on; OK: it can.
  const absl::Status& error() const { return error_; }
  // The code of that error; empty: the connection was lost, or did not answer in time.
  const std::string& sqlstate() const { return sqlstate_; }
  // The error is that another transaction has had a lock for too long.
  bool LockIsHeld() const { return sqlstate_ == "55P03"; }

  // Forgets the error of the last transaction.
  void ForgetError() {
    error_ = absl::OkStatus();
    sqlstate_.clear();
  }

  // Forgets the answers that were announced and not asked for; they are asked for anew.
  void ForgetAnnounced() { announced_.clear(); }

  absl::Status Execute(const char* sql) override;
  absl::Status BeginMigration() override;
  absl::StatusOr<StatementUse> Use(const char* sql) override;
  absl::Status Run(Statement& statement, absl::string_view what) override;
  absl::Status Error(absl::string_view what) const override;
  absl::StatusOr<bool> HasTable(std::string_view name) override;
  const char* NextNumberQuery(std::string_view table) override;
  // An error of PostgreSQL undoes the whole transaction, so only a change that fails late has a
  // savepoint.
  absl::Status MakeWhole(bool fails_late, absl::FunctionRef<absl::Status()> change) override;
  absl::Status CheckItself(size_t /*limit*/, std::vector<std::string>* /*faults*/) override {
    return absl::OkStatus();
  }

 private:
  // The answer to a statement that was sent.
  struct Answer {
    PgResult result;
    bool has_arrived = false;
  };

  void Announce(PostgresStatement& statement) override;
  Stepped Step(PostgresStatement& statement) override;
  void End(PostgresStatement& /*statement*/) override {}

  // Notes the first error of the transaction.
  void Fail(const absl::Status& status, std::string sqlstate);
  // Whether the transaction has a connection and no error. Without a connection, that is the error.
  bool CanSend();
  // Sends a statement without waiting. Null after an error.
  std::shared_ptr<Answer> Send(PostgresStatement& statement);
  std::shared_ptr<Answer> SendSql(const std::string& sql, absl::Span<const std::string> text);
  std::shared_ptr<Answer> Expect();
  // Waits until the answer has arrived.
  absl::Status WaitFor(const Answer& answer);
  // Reads the answer of the statement that was sent first of those without an answer.
  absl::Status ReadAnswer();
  // Sends the end of a part of the pipeline. After an error the server skips what comes before it.
  absl::Status SendSync();
  // Sends the end of the pipeline, and waits for all answers.
  absl::Status Sync();

  const std::string id_;
  std::unique_ptr<Connection> connection_;
  StatementCache statements_{this, /*writes=*/true};
  std::unordered_set<std::string> prepared_;  // names, on this connection
  std::deque<std::shared_ptr<Answer>> expected_;
  std::unordered_map<std::string, std::deque<std::shared_ptr<Answer>>> announced_;
  // The statements that this transaction prepares, and the answers.
  std::vector<std::pair<std::string, std::shared_ptr<Answer>>> preparing_;
  std::shared_ptr<Answer> numbered_;  // to the statement that writes the transaction's number
  MonotonicTime deadline_;
  absl::Status error_;
  std::string sqlstate_;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_WRITER_H_
