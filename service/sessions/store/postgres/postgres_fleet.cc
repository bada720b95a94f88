// Each transaction on leases locks one row, and asks for the time when it has the lock.
#include "service/sessions/store/postgres/postgres_fleet.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/store/sql/leases.h"
#include "service/sessions/store/sql/rows.h"

namespace longstream::store {
namespace {

using fleet::OwnedRow;
using fleet::RenewedLease;
using fleet::Replica;
using fleet::ReplicaName;

constexpr int kNumRowReaders = 4;

// A lease that was over for so long is forgotten.
constexpr const char* kForgetOldLeases =
    "DELETE FROM leases WHERE replica IN"
    " (SELECT replica FROM leases WHERE replica <> $1 AND lease_end < clock_timestamp() - interval "
    "'30 days'"
    "  FOR UPDATE SKIP LOCKED)";

// `before` waits for a claim that looks at the lease, and for other renewals. The time is asked for
// after that: if a claim has found the lease over, then so does the renewal.
constexpr const char* kRenew =
    "WITH before AS MATERIALIZED"
    " (SELECT incarnation, lease_end FROM leases WHERE replica = $1 FOR NO KEY UPDATE),"
    " timed AS MATERIALIZED"
    " (SELECT incarnation, lease_end, clock_timestamp() AS now FROM before)"
    " UPDATE leases SET holder = $2, incarnation = $3::bigint,"
    "  lease_end = timed.now + $4::bigint * interval '1 microsecond',"
    "  peer_address = $5, client_address = $6, draining = $7::boolean"
    " FROM timed WHERE leases.replica = $1 AND timed.incarnation <= $3::bigint"
    " RETURNING timed.incarnation = $3::bigint AND timed.lease_end <= timed.now,"
    " (SELECT generation FROM fleet), (SELECT " LONGSTREAM_SAME_SERVER " FROM fleet)";

// The row was forgotten: the lease has been over for long.
constexpr const char* kAddLapsedLease =
    "INSERT INTO leases(replica, holder, incarnation, lease_end, peer_address, client_address, "
    "draining)"
    " VALUES ($1, $2, $3::bigint, '-infinity', '', '', false) ON CONFLICT DO NOTHING";

// On the first server of a fleet no replica has missed a renewal.
constexpr const char* kNoteServer =
    "UPDATE fleet SET generation = generation + CASE WHEN timeline = '' THEN 0 ELSE 1 END,"
    " claims_from = CASE WHEN timeline = '' THEN claims_from"
    "  ELSE clock_timestamp() + $1::bigint * interval '1 microsecond' END,"
    " server_start = pg_postmaster_start_time(), timeline = " LONGSTREAM_TIMELINE
    " WHERE NOT " LONGSTREAM_SAME_SERVER;

constexpr const char* kReadRow = "SELECT s.*, " LONGSTREAM_LEASE_HOLDS(
    "s.owner") ", " LONGSTREAM_CLAIMS_ALLOWED ", " LONGSTREAM_TURN_LINK_COLUMNS
               " FROM (SELECT " LONGSTREAM_SESSION_COLUMNS
               "  FROM sessions WHERE tenant = ?1 AND id = ?2 AND close_time IS NULL) AS s"
               " LEFT JOIN turns t ON t.session = s.number AND t.id = ?3";
constexpr int kSessionColumns = 16;

// The columns of a row from one on. Only reads.
class ColumnsFrom final : public Statement {
 public:
  ColumnsFrom(const Statement& row, int first) : row_(row), first_(first) {}
  void Bind(int /*parameter*/, int64_t /*value*/) override {}
  void BindText(int /*parameter*/, std::string_view /*text*/) override {}
  void BindBlob(int /*parameter*/, std::string_view /*bytes*/) override {}
  void BindNull(int /*parameter*/) override {}
  Stepped Step() override { return Stepped::kDone; }
  void Reset() override {}
  bool IsNull(int column) const override { return row_.IsNull(first_ + column); }
  int64_t Int(int column) const override { return row_.Int(first_ + column); }
  std::string Bytes(int column) const override { return row_.Bytes(first_ + column); }

 private:
  const Statement& row_;
  const int first_;
};

// A name's parts: "<replica>/<incarnation>".
struct NameParts {
  std::string replica;
  int64_t incarnation = 0;
};

absl::StatusOr<NameParts> PartsOf(const ReplicaName& name) {
  const size_t slash = name.rfind('/');
  NameParts parts;
  if (slash != ReplicaName::npos && slash > 0 &&
      absl::SimpleAtoi(name.substr(slash + 1), &parts.incarnation) && parts.incarnation > 0) {
    parts.replica = name.substr(0, slash);
    return parts;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "fleet: '", absl::CHexEscape(name), "' is no name of a replica: REPLICA_ID/INCARNATION"));
}

std::string MicrosecondsOf(absl::Duration duration) {
  return std::to_string(absl::ToInt64Microseconds(duration));
}

std::string TextOf(const PgResult& result, int row, int column) {
  return {PQgetvalue(result.get(), row, column),
          static_cast<size_t>(PQgetlength(result.get(), row, column))};
}

absl::StatusOr<int64_t> NumberIn(const PgResult& result, int column) {
  int64_t number = 0;
  if (PQntuples(result.get()) == 1 && absl::SimpleAtoi(TextOf(result, 0, column), &number)) {
    return number;
  }
  return absl::DataLossError("store: the table fleet does not have one row");
}

bool IsTrue(const PgResult& result, int row, int column) {
  return TextOf(result, row, column) == "t";
}

// A turn that has started on another head can never be committed.
TurnState StateOn(TurnNumber head, const TurnRow& turn) {
  const bool has_moved = turn.state == TurnState::kStarted && turn.parent != head;
  return has_moved ? TurnState::kAbandoned : turn.state;
}

}  // namespace

PostgresFleet::PostgresFleet(const Options& options)
    : target_{.url = options.url,
              .password = options.password,
              .timeout = options.timeout,
              .application_name = "longstream-fleet"} {
  for (int i = 0; i < kNumRowReaders; ++i) {
    rows_.Add(std::make_unique<PostgresReader>(target_, &row_gate_));
  }
}

absl::StatusOr<PgResult> PostgresFleet::Query(const std::string& sql,
                                              absl::Span<const std::string> parameters,
                                              absl::string_view what) {
  if (leases_ == nullptr || leases_->IsStale()) {
    leases_ = nullptr;
    absl::StatusOr<std::unique_ptr<Connection>> opened = lease_gate_.Open(target_);
    if (!opened.ok()) return opened.status();
    leases_ = *std::move(opened);
  }
  leases_->ClearWarning();
  absl::StatusOr<PgResult> result =
      leases_->Query(sql, parameters, MonotonicTime::Now() + target_.timeout, what);
  if (result.ok() && leases_->warned()) {
    result = absl::UnavailableError(absl::StrCat("store: ", what, ": the standby did not answer"));
  }
  if (!result.ok()) leases_ = nullptr;
  return result;
}

absl::StatusOr<ReplicaName> PostgresFleet::Join(const std::string& replica_id) {
  if (replica_id.empty()) {
    return absl::InvalidArgumentError("fleet: the id of the replica is empty");
  }
  constexpr absl::string_view kWhat = "join the fleet";
  absl::MutexLock lock(&mutex_);
  absl::Status status =
      Query(
          "INSERT INTO leases(replica, incarnation, lease_end, peer_address, client_address,"
          " draining) VALUES ($1, 0, clock_timestamp(), '', '', false) ON CONFLICT DO NOTHING",
          {replica_id}, kWhat)
          .status();
  if (!status.ok()) return status;
  if (status = Query(kForgetOldLeases, {replica_id}, kWhat).status(); !status.ok()) return status;
  const absl::StatusOr<PgResult> drawn =
      Query("UPDATE fleet SET last_incarnation = last_incarnation + 1 RETURNING last_incarnation",
            {}, kWhat);
  if (!drawn.ok()) return drawn.status();
  const absl::StatusOr<int64_t> incarnation = NumberIn(*drawn, 0);
  if (!incarnation.ok()) return incarnation.status();
  return absl::StrCat(replica_id, "/", *incarnation);
}

absl::StatusOr<RenewedLease> PostgresFleet::Renew(const Replica& self, absl::Duration ttl) {
  const absl::StatusOr<NameParts> name = PartsOf(self.name);
  if (!name.ok()) return name.status();
  absl::MutexLock lock(&mutex_);
  const bool had_no_answer = !unanswered_.insert(self.name).second;
  absl::StatusOr<RenewedLease> renewed = RenewLease(self, name->replica, name->incarnation, ttl);
  if (renewed.ok()) {
    if (had_no_answer) renewed->lapsed = true;
    unanswered_.erase(self.name);
  }
  return renewed;
}

absl::StatusOr<RenewedLease> PostgresFleet::RenewLease(const Replica& self,
                                                       const std::string& replica,
                                                       int64_t incarnation, absl::Duration ttl) {
  constexpr absl::string_view kWhat = "renew the lease";
  const std::string number = std::to_string(incarnation);
  const auto renew = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Query(kRenew,
                 {replica, self.name, number, MicrosecondsOf(ttl), self.peer_address,
                  self.client_address, self.draining ? "t" : "f"},
                 kWhat);
  };
  absl::StatusOr<PgResult> row = renew();
  if (row.ok() && PQntuples(row->get()) == 0) {
    absl::Status added = Query(kAddLapsedLease, {replica, self.name, number}, kWhat).status();
    if (!added.ok()) return added;
    row = renew();
  }
  if (!row.ok()) return row.status();
  if (PQntuples(row->get()) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("fleet: a later incarnation of the replica '", absl::CHexEscape(replica),
                     "' has the lease, not ", incarnation,
                     "; each replica needs a fleet.replica_id of its own"));
  }
  RenewedLease renewed;
  renewed.lapsed = IsTrue(*row, 0, 0);
  absl::StatusOr<int64_t> generation = NumberIn(*row, 1);
  if (generation.ok() && !IsTrue(*row, 0, 2)) generation = NoteOtherServer(ttl);
  if (!generation.ok()) return generation.status();
  renewed.generation = *generation;
  absl::StatusOr<std::vector<Replica>> others = Others(replica);
  if (!others.ok()) return others.status();
  renewed.others = *std::move(others);
  return renewed;
}

absl::StatusOr<int64_t> PostgresFleet::NoteOtherServer(absl::Duration ttl) {
  constexpr absl::string_view kWhat = "note that the database was started again";
  // Waits for claims first, so that the time is that of the update.
  for (const char* sql : {"BEGIN", "SELECT 1 FROM fleet FOR NO KEY UPDATE"}) {
    if (absl::Status status = Query(sql, {}, kWhat).status(); !status.ok()) return status;
  }
  absl::Status status = Query(kNoteServer, {MicrosecondsOf(ttl)}, kWhat).status();
  if (!status.ok()) return status;
  const absl::StatusOr<PgResult> row = Query("SELECT generation FROM fleet", {}, kWhat);
  if (!row.ok()) return row.status();
  if (status = Query("COMMIT", {}, kWhat).status(); !status.ok()) return status;
  return NumberIn(*row, 0);
}

absl::StatusOr<std::vector<Replica>> PostgresFleet::Others(const std::string& replica) {
  const absl::StatusOr<PgResult> rows = Query(
      "SELECT holder, peer_address, client_address, draining FROM leases"
      " WHERE holder IS NOT NULL AND replica <> $1 AND lease_end > clock_timestamp()"
      " ORDER BY replica",
      {replica}, "read the leases of other replicas");
  if (!rows.ok()) return rows.status();
  std::vector<Replica> others;
  others.reserve(static_cast<size_t>(PQntuples(rows->get())));
  for (int i = 0; i < PQntuples(rows->get()); ++i) {
    others.push_back({.name = TextOf(*rows, i, 0),
                      .peer_address = TextOf(*rows, i, 1),
                      .client_address = TextOf(*rows, i, 2),
                      .draining = IsTrue(*rows, i, 3)});
  }
  return others;
}

absl::Status PostgresFleet::Release(const ReplicaName& self) {
  absl::MutexLock lock(&mutex_);
  return Query(
             "UPDATE leases SET lease_end = clock_timestamp()"
             " WHERE holder = $1 AND lease_end > clock_timestamp()",
             {self}, "release the lease")
      .status();
}

absl::StatusOr<OwnedRow> PostgresFleet::ReadRow(const SessionKey& session,
                                                const std::optional<TurnId>& turn) {
  const ReaderPool::Reader reader = rows_.Take();
  absl::StatusOr<StatementUse> select = reader->Use(kReadRow);
  if (!select.ok()) return select.status();
  const std::string id = session.id.Bytes(), turn_id = turn ? turn->Bytes() : std::string();
  (*select)->BindText(0, session.tenant);
  (*select)->BindBlob(1, id);
  if (turn) {
    (*select)->BindBlob(2, turn_id);
  } else {
    (*select)->BindNull(2);
  }
  const Stepped code = (*select)->Step();
  if (code == Stepped::kDone) return OwnedRow{};
  if (code != Stepped::kRow) return reader->Error("read the row of a session");
  const absl::StatusOr<NumberedSession> read = ReadSession(**select);
  if (!read.ok()) return read.status();
  OwnedRow row{.open = true,
               .owner = read->row.owner,
               .epoch = read->row.epoch,
               .version = read->row.version,
               .owner_lives = (*select)->Int(kSessionColumns) != 0,
               .claims_allowed = (*select)->Int(kSessionColumns + 1) != 0};
  const ColumnsFrom columns(**select, kSessionColumns + 2);
  if (!columns.IsNull(0)) {
    const absl::StatusOr<NumberedTurn> found = ReadTurnLink(columns);
    if (!found.ok()) return found.status();
    row.turn = StateOn(read->row.head, found->row);
  }
  return row;
}

}  // namespace longstream::store
