// Parts of PostgreSQL's SQL that look at the leases of replicas.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_LEASES_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_LEASES_H_

// Whether the replica with this name has a lease that is not over.
#define LONGSTREAM_LEASE_HOLDS(name) \
  "EXISTS (SELECT 1 FROM leases WHERE holder = " name " AND lease_end > clock_timestamp())"
// In a query of the table `fleet`: the server was not started again, and no other one has taken its
// place, since a replica has last noticed that.
#define LONGSTREAM_TIMELINE "left(pg_walfile_name(pg_current_wal_lsn()), 8)"
#define LONGSTREAM_SAME_SERVER \
  "(server_start = pg_postmaster_start_time() AND timeline = " LONGSTREAM_TIMELINE ")"
// Whether claims are allowed. Not on another server, also if no replica has noticed it yet.
#define LONGSTREAM_CLAIMS_ALLOWED                     \
  "coalesce((SELECT " LONGSTREAM_SAME_SERVER          \
  " AND claims_from <= clock_timestamp() FROM fleet)" \
  ", false)"

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_LEASES_H_
