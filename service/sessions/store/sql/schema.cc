// The statements that make the tables, one step for each version.
#include "service/sessions/store/sql/schema.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

// The steps are written for SQLite; PostgreSQL's driver replaces the names of types
// (postgres/dialect.h), and takes what stands behind POSTGRES in a comment as a part of the step.
//
// `store` has one row. `min_reader` is the oldest version of the program that may open the store.
//
// Times are microseconds since 1970. A `checksum` covers all columns of its row but itself; blobs
// of turns have checksums of their own, so that a turn's columns can be read without them.
// `left_time`: when a head last moved away from the turn. `id` of a store is empty in a backup.
//
// PostgreSQL alone: `system_identifier` is that of the servers that hold the store, so a copy that
// was restored on other ones gets another id. `writers` has a row for each server that has opened
// the store: the number of its last transaction, which is written in that transaction. So a server
// that has lost its connection finds out whether the transaction was committed.
constexpr const char* kSteps[] = {
    R"sql(
    /*POSTGRES CREATE SCHEMA IF NOT EXISTS longstream; */
    CREATE TABLE store(version INTEGER NOT NULL, min_reader INTEGER NOT NULL, id BLOB NOT NULL);
    INSERT INTO store VALUES (0, 1, randomblob(16));

    CREATE TABLE sessions(
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      tenant TEXT NOT NULL,
      id BLOB NOT NULL,
      model TEXT NOT NULL,
      owner TEXT NOT NULL,
      epoch INTEGER NOT NULL,
      version INTEGER NOT NULL,
      head INTEGER REFERENCES turns(number),
      position INTEGER NOT NULL,
      create_time INTEGER NOT NULL,
      last_use_time INTEGER NOT NULL,
      delete_time INTEGER,
      forked_from BLOB,
      properties BLOB NOT NULL,
      checksum INTEGER NOT NULL,
      close_time INTEGER);
    CREATE UNIQUE INDEX open_sessions ON sessions(tenant, id) WHERE close_time IS NULL;
    CREATE INDEX sessions_by_head ON sessions(head);
    CREATE INDEX sessions_by_delete_time ON sessions(delete_time)
      WHERE close_time IS NULL AND delete_time IS NOT NULL;
    CREATE INDEX closed_sessions ON sessions(close_time) WHERE close_time IS NOT NULL;

    CREATE TABLE turns(
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      session INTEGER NOT NULL REFERENCES sessions(number),
      id BLOB NOT NULL,
      parent INTEGER REFERENCES turns(number),
      state INTEGER NOT NULL,
      epoch INTEGER NOT NULL,
      kept_position INTEGER NOT NULL,
      position INTEGER NOT NULL,
      start_time INTEGER NOT NULL,
      end_time INTEGER,
      request_digest BLOB NOT NULL,
      request_checksum INTEGER NOT NULL,
      result_checksum INTEGER NOT NULL,
      checksum INTEGER NOT NULL,
      request BLOB NOT NULL,
      result BLOB NOT NULL,
      left_time INTEGER,
      UNIQUE(session, id));
    CREATE INDEX turns_by_parent ON turns(parent);
    /*POSTGRES
    ALTER TABLE sessions ADD FOREIGN KEY (head) REFERENCES turns(number);
    ALTER TABLE store ADD COLUMN system_identifier TEXT NOT NULL DEFAULT '';
    CREATE TABLE writers(
      id BLOB PRIMARY KEY,
      last_transaction INTEGER NOT NULL,
      last_time TIMESTAMPTZ NOT NULL DEFAULT now());
    */
    )sql",
    // Programs of version 1 remove turns without knowing of snapshots, so these go with the turn.
    // Either `file` or `data` is NULL. `dead_segments` are files whose segment has no row any more;
    // `dead_at` is NULL until CollectSegments has seen the row.
    R"sql(
    CREATE TABLE segments(
      number INTEGER PRIMARY KEY,
      tenant TEXT NOT NULL,
      key BLOB NOT NULL,
      kind INTEGER NOT NULL,
      previous BLOB,
      begin_token INTEGER NOT NULL,
      end_token INTEGER NOT NULL,
      bytes INTEGER NOT NULL,
      data_checksum INTEGER NOT NULL,
      file TEXT,
      checksum INTEGER NOT NULL,
      data BLOB,
      UNIQUE(tenant, key));
    CREATE INDEX segments_by_previous ON segments(tenant, previous) WHERE previous IS NOT NULL;
    CREATE INDEX segments_by_file ON segments(file, bytes) WHERE file IS NOT NULL;

    CREATE TABLE snapshots(
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      turn INTEGER NOT NULL REFERENCES turns(number) ON DELETE CASCADE,
      tenant TEXT NOT NULL,
      cache BLOB NOT NULL,
      position INTEGER NOT NULL,
      span BLOB,
      fixed BLOB NOT NULL,
      checksum INTEGER NOT NULL,
      UNIQUE(turn, cache));
    CREATE INDEX snapshots_by_span ON snapshots(tenant, span) WHERE span IS NOT NULL;
    CREATE INDEX snapshots_by_fixed ON snapshots(tenant, fixed);

    CREATE TABLE dead_segments(file TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, dead_at INTEGER);
    )sql",
    // `turn_sums` has the bytes of the requests and results of a committed turn and of all turns
    // before it, `span_sums` those of a span and of all spans before it. Programs of version 2 do
    // not write them; where one is missing, the turns or spans are added up.
    R"sql(
    CREATE TABLE turn_sums(
      turn INTEGER PRIMARY KEY REFERENCES turns(number) ON DELETE CASCADE,
      bytes INTEGER NOT NULL);
    CREATE TABLE span_sums(
      segment INTEGER PRIMARY KEY REFERENCES segments(number) ON DELETE CASCADE,
      bytes INTEGER NOT NULL);
    )sql",
    // Programs of version 3 do not know aliases: they serve those of their configuration.
    R"sql(
    CREATE TABLE aliases(name TEXT PRIMARY KEY, arms BLOB NOT NULL, checksum INTEGER NOT NULL)
      WITHOUT ROWID;
    )sql",
    // PostgreSQL alone, because only its servers can be replicas of a fleet (docs/fleet.md).
    // Programs of version 4 have none. `leases` has a row for each replica id: `holder` is the name
    // of the replica that has the lease, `incarnation` the number in that name; NULL and 0: no
    // incarnation has had it. `fleet` has one row: `server_start` and `timeline` are those of the
    // server on which the last renewal was made; an empty `timeline`: there was none yet. Before
    // `claims_from` no claim is allowed. `last_incarnation` is the last one that was drawn, of all
    // replicas. These rows have no checksums: leases save work, and the fence keeps sessions safe.
    R"sql(
    /*POSTGRES
    CREATE TABLE leases(
      replica TEXT PRIMARY KEY,
      holder TEXT,
      incarnation INTEGER NOT NULL,
      lease_end TIMESTAMPTZ NOT NULL,
      peer_address TEXT NOT NULL,
      client_address TEXT NOT NULL,
      draining BOOLEAN NOT NULL);
    CREATE INDEX leases_by_holder ON leases(holder);
    CREATE TABLE fleet(
      generation INTEGER NOT NULL,
      server_start TIMESTAMPTZ NOT NULL,
      timeline TEXT NOT NULL,
      claims_from TIMESTAMPTZ NOT NULL,
      last_incarnation INTEGER NOT NULL);
    INSERT INTO fleet VALUES (1, '-infinity', '', '-infinity', 0);
    */
    )sql",
    // Programs of version 5 do not know notes, which stay until their session is removed.
    R"sql(
    CREATE TABLE notes(
      session INTEGER NOT NULL REFERENCES sessions(number) ON DELETE CASCADE,
      tenant TEXT NOT NULL,
      key BLOB NOT NULL,
      time INTEGER NOT NULL,
      checksum INTEGER NOT NULL,
      value BLOB NOT NULL,
      UNIQUE(session, key));
    CREATE INDEX notes_by_key ON notes(tenant, key, time);
    )sql",
};

absl::Status MakeSteps(Database& database, absl::Span<const char* const> steps) {
  const absl::StatusOr<int64_t> version = StoredVersion(database, steps.size());
  if (!version.ok()) return version.status();
  if (*version < 0) return absl::DataLossError(absl::StrCat("store: its version is ", *version));
  const auto newest = static_cast<int64_t>(steps.size());
  if (*version < newest) {
    for (const char* step : steps.subspan(static_cast<size_t>(*version))) {
      if (absl::Status status = database.Execute(step); !status.ok()) return status;
    }
    const std::string set = absl::StrCat("UPDATE store SET version = ", newest);
    if (absl::Status status = database.Execute(set.c_str()); !status.ok()) return status;
  }
  return database.Execute("UPDATE store SET id = randomblob(16) WHERE length(id) = 0");
}

}  // namespace

absl::StatusOr<int64_t> StoredVersion(Database& database, size_t newest) {
  const absl::StatusOr<bool> has_tables = database.HasTable("store");
  if (!has_tables.ok()) return has_tables.status();
  if (!*has_tables) return 0;
  absl::StatusOr<StatementUse> row = database.Use("SELECT version, min_reader FROM store");
  if (!row.ok()) return row.status();
  if (const Stepped code = (*row)->Step(); code != Stepped::kRow) {
    return database.Error("read the version of the store");
  }
  const int64_t min_reader = (*row)->Int(1);
  if (min_reader > static_cast<int64_t>(newest)) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: its min_reader is ", min_reader, ": only programs of store version ",
                     min_reader, " and newer may open it; this program has version ", newest));
  }
  return (*row)->Int(0);
}

absl::Span<const char* const> SchemaSteps() { return kSteps; }

absl::Status Migrate(Database& database, absl::Span<const char* const> steps) {
  if (absl::Status status = database.BeginMigration(); !status.ok()) return status;
  absl::Status status = MakeSteps(database, steps);
  if (status.ok()) status = database.Execute("COMMIT");
  if (!status.ok()) database.Execute("ROLLBACK").IgnoreError();
  return status;
}

}  // namespace longstream::store
