// The leases of replicas, as changes of the log look at them.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_LEASES_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_LEASES_H_

#include "absl/status/status.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// SQL of PostgreSQL: whether the replica with this name has a lease that is not over.
#define LONGSTREAM_LEASE_HOLDS(name) \
  "EXISTS (SELECT 1 FROM leases WHERE holder = " name " AND lease_end > clock_timestamp())"
// In a query of the table `fleet`: the server was not started again, and no other one has taken its
// place, since a replica has last noticed that.
#define LONGSTREAM_TIMELINE "left(pg_walfile_name(pg_current_wal_lsn()), 8)"
#define LONGSTREAM_SAME_SERVER \
  "(server_start = pg_postmaster_start_time() AND timeline = " LONGSTREAM_TIMELINE ")"
// Whether claims are allowed. Not on another server, also if no replica has noticed it yet.
#define LONGSTREAM_CLAIMS_ALLOWED                                                        \
  "coalesce((SELECT " LONGSTREAM_SAME_SERVER " AND claims_from <= clock_timestamp() FROM fleet)" \
  ", false)"

// Whether the condition of the change holds for the session, whose row is locked. No renewal or
// release of the two leases is made until the transaction has ended. Errors as for ChangeOwner.
//
// Locks are taken in this order: rows of sessions, rows of leases by their replica, the row of the
// fleet. Claims share the locks of leases and of the fleet, and a renewal or release holds only the
// lock of one row while it waits for nothing else. So no two transactions wait for each other's
// leases. Two servers' transactions can wait for each other's sessions only if they have several
// changes of one session (AnnounceReads); PostgreSQL then ends one of them, which is made again.
absl::Status CheckLeases(Database& database, const SessionRow& session, const ChangeOwner& change);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_LEASES_H_
