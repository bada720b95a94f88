// The leases of replicas and the rows of their sessions, in the database that they share.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_FLEET_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_FLEET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/fleet/fleet_store.h"
#include "service/sessions/store/postgres/connection.h"
#include "service/sessions/store/postgres/postgres_reader.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// Leases have a connection of their own, and so have reads of rows: a renewal waits neither for the
// log's changes nor for long reads. Connects on first use, and again when a connection was lost.
//
// The tables are those of PostgresStore, which makes them: open it first.
class PostgresFleet final : public fleet::FleetStore {
 public:
  struct Options {
    std::string url;       // postgresql://..., as for PostgresStore
    std::string password;  // empty: as the URL, PGPASSFILE or the server's rules say
    // A statement that takes longer is given up. A quarter of lease_ttl, so that a renewal can be
    // tried again before the lease is over.
    absl::Duration timeout = absl::Seconds(2);
  };

  explicit PostgresFleet(const Options& options);

  absl::StatusOr<fleet::ReplicaName> Join(const std::string& replica_id) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<fleet::RenewedLease> Renew(const fleet::Replica& self, absl::Duration ttl) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Release(const fleet::ReplicaName& self) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<fleet::OwnedRow> ReadRow(const SessionKey& session,
                                          const std::optional<TurnId>& turn) override;

 private:
  // Parts of Renew. The lease ends `ttl` from now.
  absl::StatusOr<fleet::RenewedLease> RenewLease(const fleet::Replica& self,
                                                 const std::string& replica, int64_t incarnation,
                                                 absl::Duration ttl)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Raises the generation, if no other replica has done so meanwhile.
  absl::StatusOr<int64_t> NoteOtherServer(absl::Duration ttl) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<fleet::Replica>> Others(const std::string& replica)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Makes one statement on the connection of leases. After an error the connection is closed, which
  // also ends its transaction.
  absl::StatusOr<PgResult> Query(const std::string& sql, absl::Span<const std::string> parameters,
                                 absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PostgresTarget target_;
  absl::Mutex mutex_;
  ReconnectGate lease_gate_;
  std::unique_ptr<Connection> leases_ ABSL_GUARDED_BY(mutex_);
  // Replicas whose last renewal had no answer. It may have said that the lease had lapsed.
  std::set<fleet::ReplicaName> unanswered_ ABSL_GUARDED_BY(mutex_);
  ReconnectGate row_gate_;
  ReaderPool rows_;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_FLEET_H_
