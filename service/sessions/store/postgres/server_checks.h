// Checks the settings of a PostgreSQL server, and tells which server it is.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_SERVER_CHECKS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_SERVER_CHECKS_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/store/postgres/connection.h"

namespace longstream::store {

struct ServerIdentity {
  std::string system_identifier;  // equal on a server and its standbys
  std::string timeline;           // another one after a standby has been promoted
  std::string start_time;         // of the server's process

  friend bool operator==(const ServerIdentity&, const ServerIdentity&) = default;
};

// Reads who the server is. FAILED_PRECONDITION: one of its settings may lose acknowledged changes
// (fsync, full_page_writes, synchronous_commit; with `require_standby` also
// synchronous_standby_names), its text is not UTF-8, or it is older than version 13. UNAVAILABLE:
// it is a standby, or does not answer.
absl::StatusOr<ServerIdentity> CheckServer(Connection& connection, bool require_standby,
                                           MonotonicTime deadline);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_SERVER_CHECKS_H_
