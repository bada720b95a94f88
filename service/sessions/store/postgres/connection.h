// A connection to a PostgreSQL server, by libpq. Every wait has an end.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_CONNECTION_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_CONNECTION_H_

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/store/postgres/url.h"

namespace longstream::store {

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ClearResult>;

// Where the database is.
struct PostgresTarget {
  std::string url;       // postgresql://...; several hosts are tried in their order
  std::string password;  // empty: as the URL, PGPASSFILE or the server's rules say
  // After this time a statement is given up, at the server and here.
  absl::Duration timeout = absl::Seconds(10);
  std::string application_name = "longstream";
};

// The error of a result: RESOURCE_EXHAUSTED, DATA_LOSS, ALREADY_EXISTS, INVALID_ARGUMENT or
// UNAVAILABLE. The message has the server's first sentence, which names no values of rows.
absl::Status ErrorOfResult(const PGresult* result, absl::string_view what);

// Whether the same transaction may succeed if it is made again, on another connection if need be:
// the server stops, has been replaced, or has ended the transaction because of others.
bool IsTransient(std::string_view sqlstate);
// The server has been replaced or is being stopped, so the connection is of no use.
bool NeedsNewConnection(std::string_view sqlstate);
// The five characters of the error's code; empty if the connection was lost.
std::string SqlState(const PGresult* result);

// ERROR, FATAL and so on; empty if the connection was lost.
std::string SeverityOf(const PGresult* result);

// Bytes in the text form of a BYTEA.
std::string HexOf(const std::string& bytes);

// One thread at a time may use it.
class Connection {
 public:
  // Connects, in a few seconds at most for each host, and sets what every session needs.
  // UNAVAILABLE: the server cannot be reached, or refuses the connection.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const PostgresTarget& target);
  ~Connection() { PQfinish(handle_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  PGconn* handle() const { return handle_; }

  // Whether the server has closed the connection while nobody used it. Does not wait.
  bool IsStale();
  // Sends what libpq has gathered. UNAVAILABLE: the connection is lost, or `deadline` has passed.
  absl::Status Flush(MonotonicTime deadline, absl::string_view what);
  // The next result of the present query; null: there are no more. Errors are those of Flush.
  absl::StatusOr<PgResult> Next(MonotonicTime deadline, absl::string_view what);

  // Runs one statement with parameters in text form, and waits for all of its rows. Not in a
  // pipeline. Errors are those of ErrorOfResult and Flush.
  absl::StatusOr<PgResult> Query(const std::string& sql, absl::Span<const std::string> parameters,
                                 MonotonicTime deadline, absl::string_view what);
  // Runs statements that return no rows that are needed.
  absl::Status Execute(const std::string& sql, MonotonicTime deadline, absl::string_view what);

  // Whether the server has sent a warning since the last ClearWarning. A commit with a warning may
  // not have reached the standby.
  bool warned() const { return warned_; }
  void ClearWarning() { warned_ = false; }

  // UNAVAILABLE, with libpq's reason.
  absl::Status LostError(absl::string_view what) const;

 private:
  static absl::StatusOr<std::unique_ptr<Connection>> OpenHost(const PostgresTarget& target,
                                                              const PostgresParameters& host);

  explicit Connection(PGconn* handle) : handle_(handle) {}
  // Waits until the socket can be read, or written if `to_write`.
  absl::Status Wait(bool to_write, MonotonicTime deadline, absl::string_view what);

  PGconn* const handle_;
  bool warned_ = false;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_CONNECTION_H_
