// A connection that makes one statement after the other, and connects again when it has to.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_READER_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_READER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/growing_pause.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/store/postgres/connection.h"
#include "service/sessions/store/postgres/statement.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// While a server cannot be reached, only one try in a while waits for it; other readers get its
// error at once. Thread-safe.
class ReconnectGate {
 public:
  // Opens a connection. Errors are those of Connection::Open.
  absl::StatusOr<std::unique_ptr<Connection>> Open(const PostgresTarget& target)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  GrowingPause pause_ ABSL_GUARDED_BY(mutex_){absl::Milliseconds(20), absl::Seconds(1)};
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);  // OK: the last try was successful
  MonotonicTime next_try_ ABSL_GUARDED_BY(mutex_);
};

// Connects on first use, and again when the server has closed the connection. Rows come one by one,
// so a large table takes no memory.
class PostgresReader final : public Database, private StatementRunner {
 public:
  // `gate` must outlive this object. `writes`: as ToPostgres.
  PostgresReader(PostgresTarget target, ReconnectGate* gate, bool writes = false)
      : target_(std::move(target)), gate_(gate), writes_(writes) {}

  absl::Status Execute(const char* sql) override;
  absl::Status BeginMigration() override;
  absl::StatusOr<StatementUse> Use(const char* sql) override;
  absl::Status Run(Statement& statement, absl::string_view what) override;
  absl::Status Error(absl::string_view what) const override;
  absl::StatusOr<bool> HasTable(std::string_view name) override;
  const char* NextNumberQuery(std::string_view table) override;
  absl::Status MakeWhole(bool /*fails_late*/, absl::FunctionRef<absl::Status()> change) override {
    return change();
  }
  absl::Status CheckItself(size_t /*limit*/, std::vector<std::string>* /*faults*/) override {
    return absl::OkStatus();
  }

  // The connection; opens it if there is none.
  absl::StatusOr<Connection*> Connect();

 private:
  void Announce(PostgresStatement& /*statement*/) override {}
  Stepped Step(PostgresStatement& statement) override;
  void End(PostgresStatement& statement) override;

  MonotonicTime Deadline() const { return MonotonicTime::Now() + target_.timeout; }
  // Sends the statement.
  absl::Status Begin(PostgresStatement& statement);
  // Reads the next result into result_.
  absl::Status ReadResult();
  // Waits for the end of the query, whose next results must be its last ones.
  void Drain();
  absl::Status Prepare(const PostgresStatement& statement);

  const PostgresTarget target_;
  ReconnectGate* const gate_;
  const bool writes_;
  bool in_transaction_ = false;
  StatementCache statements_{this, writes_};
  std::unique_ptr<Connection> connection_;
  std::unordered_set<std::string> prepared_;  // names, on this connection
  PgResult result_;                           // of the statement that is being executed
  bool busy_ = false;                         // the query has results still
  bool lost_ = false;                         // the last error was the loss of the connection
  absl::Status error_;
};

// The numbers of the tables' sequences.
const char* NextNumberOf(std::string_view table);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_READER_H_
