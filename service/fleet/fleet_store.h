// The part of the fleet's database besides the sessions' log: leases, and who owns a session.
#ifndef LONGSTREAM_SERVICE_FLEET_FLEET_STORE_H_
#define LONGSTREAM_SERVICE_FLEET_FLEET_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// A replica as its lease shows it to the others.
struct Replica {
  ReplicaName name;              // "<fleet.replica_id>/<incarnation>"
  std::string peer_address{};    // host:port of longstream.peer.v1
  std::string client_address{};  // host:port of longstream.v1, for foreign: redirect
  bool draining = false;         // takes no sessions any more

  friend bool operator==(const Replica&, const Replica&) = default;
};

// The answer to a renewal.
struct RenewedLease {
  int64_t generation = 0;         // of the database (docs/fleet.md)
  bool lapsed = false;            // the lease had been over
  std::vector<Replica> others{};  // the other replicas whose leases are not over
};

// Leases and rows. Claims and transfers are changes of the log (store::ChangeOwner), which the
// commit queue makes with the others. The database's clock decides when a lease is over.
//
// Thread-safe. All functions block. UNAVAILABLE: the database cannot be used now.
class FleetStore {
 public:
  virtual ~FleetStore() = default;

  // A replica starts: draws the next incarnation of the id, which has no lease yet, and returns its
  // name.
  virtual absl::StatusOr<ReplicaName> Join(const std::string& replica_id) = 0;

  // The lease ends `ttl` from now. The first renewal of an incarnation ends the leases of the
  // earlier ones. FAILED_PRECONDITION: a later incarnation of the replica has the lease.
  virtual absl::StatusOr<RenewedLease> Renew(const Replica& self, absl::Duration ttl) = 0;

  // The lease is over from now on. OK also if it was over before.
  virtual absl::Status Release(const ReplicaName& self) = 0;

  // The row of the session, with the lease of its owner and the state of the turn, all as they are
  // at one moment. A session that does not exist is a row that is not open. DATA_LOSS: the row is
  // damaged.
  virtual absl::StatusOr<OwnedRow> ReadRow(const SessionKey& session,
                                           const std::optional<TurnId>& turn) = 0;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_FLEET_STORE_H_
