// Each change reads the rows that it changes, checks them, and writes them with new checksums.
#include "service/sessions/store/sql/apply_change.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/sql/find_rows.h"
#include "service/sessions/store/sql/leases.h"
#include "service/sessions/store/sql/rows.h"
#include "service/sessions/store/sql/snapshots.h"

namespace longstream::store {
namespace {

absl::StatusOr<NumberedSession> FencedSession(Database& database, const Fence& fence) {
  absl::StatusOr<NumberedSession> session = FindSession(database, fence.key);
  if (!session.ok()) return session.status();
  const SessionRow& row = session->row;
  if (row.epoch != fence.epoch || row.version != fence.version) {
    return absl::AbortedError(absl::StrCat(
        "store: session ", fence.key.id.ToString(), " has epoch ", row.epoch, " and version ",
        row.version, ", not epoch ", fence.epoch, " and version ", fence.version));
  }
  return session;
}

// Writes the row with the next version.
absl::StatusOr<Applied> WriteSession(Database& database, NumberedSession session) {
  ++session.row.version;
  absl::StatusOr<StatementUse> update = database.Use(
      "UPDATE sessions SET tenant = ?1, id = ?2, model = ?3, owner = ?4, epoch = ?5, version = ?6,"
      " head = ?7, position = ?8, create_time = ?9, last_use_time = ?10, delete_time = ?11,"
      " forked_from = ?12, properties = ?13, close_time = ?14, checksum = ?15 WHERE number = ?16");
  if (!update.ok()) return update.status();
  const BoundSession bound(**update, session);
  absl::Status status = database.Run(**update, "write a session");
  if (!status.ok()) return status;
  return Applied{.epoch = session.row.epoch, .version = session.row.version};
}

// A head must be a committed turn.
absl::StatusOr<uint64_t> PositionOfHead(Database& database, TurnNumber head) {
  if (head == kNoTurn) return 0;
  const absl::StatusOr<NumberedTurn> turn = FindTurnLink(database, head);
  if (!turn.ok()) return turn.status();
  if (turn->row.state != TurnState::kCommitted) {
    return absl::NotFoundError(absl::StrCat("store: turn ", head, " is not committed"));
  }
  return turn->row.position;
}

// The turn of the session, which must have started and not ended; without its request.
absl::StatusOr<NumberedTurn> StartedTurn(Database& database, const NumberedSession& session,
                                         TurnNumber number) {
  absl::StatusOr<NumberedTurn> turn = FindTurnLink(database, number);
  if (!turn.ok()) return turn.status();
  if (turn->session != session.number) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: turn ", number, " did not run in ", session.row.key.id.ToString()));
  }
  if (turn->row.state != TurnState::kStarted) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: turn ", number, " has ended already"));
  }
  return turn;
}

// The head of a session moves away from this turn: remember when. A damaged turn must not hold the
// head, so its row stays as it is.
absl::Status LeaveHead(Database& database, TurnNumber head, absl::Time now) {
  if (head == kNoTurn) return absl::OkStatus();
  absl::StatusOr<NumberedTurn> turn = FindTurnLink(database, head);
  if (absl::IsDataLoss(turn.status()) || absl::IsNotFound(turn.status())) return absl::OkStatus();
  if (!turn.ok()) return turn.status();
  turn->left_time = std::max(turn->left_time, now);
  return WriteLeftTime(database, *turn);
}

// Adds the row of a session, whose number is not used yet.
absl::Status InsertSession(Database& database, const NumberedSession& session) {
  absl::StatusOr<StatementUse> insert = database.Use(
      "INSERT INTO sessions(tenant, id, model, owner, epoch, version, head, position, create_time,"
      " last_use_time, delete_time, forked_from, properties, close_time, checksum, number)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)");
  if (!insert.ok()) return insert.status();
  const BoundSession bound(**insert, session);
  return database.Run(**insert, "add a session");
}

// Adds the row of a turn, whose number is not used yet.
absl::Status InsertTurn(Database& database, const NumberedTurn& turn) {
  absl::StatusOr<StatementUse> insert = database.Use(
      "INSERT INTO turns(id, parent, state, epoch, kept_position, position, start_time, end_time,"
      " request_digest, request_checksum, result_checksum, checksum, request, result, session,"
      " left_time, number)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)");
  if (!insert.ok()) return insert.status();
  const BoundTurn bound(**insert, turn);
  return database.Run(**insert, "add a turn");
}

// Adds a session with epoch and version 1.
absl::StatusOr<NumberedSession> AddSession(Database& database, const SessionRow& row) {
  absl::Status found = FindSession(database, row.key).status();
  if (found.ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat("store: session ", row.key.id.ToString(), " exists"));
  }
  if (!absl::IsNotFound(found)) return found;
  const absl::StatusOr<int64_t> number = NextNumber(database, "sessions");
  if (!number.ok()) return number.status();
  NumberedSession session{*number, row};
  session.row.epoch = session.row.version = 1;
  if (absl::Status status = InsertSession(database, session); !status.ok()) return status;
  return session;
}

absl::StatusOr<Applied> Make(Database& database, const OpenSession& open) {
  const absl::StatusOr<uint64_t> position = PositionOfHead(database, open.row.head);
  if (!position.ok()) return position.status();
  SessionRow row = open.row;
  row.position = *position;
  const absl::StatusOr<NumberedSession> session = AddSession(database, row);
  if (!session.ok()) return session.status();
  return Applied{.epoch = session->row.epoch, .version = session->row.version};
}

absl::StatusOr<Applied> Make(Database& database, const ImportSession& import) {
  SessionRow row = import.row;
  std::set<TurnId> ids;
  for (const TurnRow& from : import.turns) {
    if (!ids.insert(from.id).second) return HasTurnError(row.key, from.id);
  }
  row.head = kNoTurn;
  row.position = 0;
  absl::StatusOr<NumberedSession> session = AddSession(database, row);
  if (!session.ok()) return session.status();
  std::vector<TurnNumber> numbers;
  for (const TurnRow& from : import.turns) {
    const absl::StatusOr<int64_t> number = NextNumber(database, "turns");
    if (!number.ok()) return number.status();
    NumberedTurn turn{session->number, from};
    turn.row.number = *number;
    turn.row.session = session->row.key;
    turn.row.parent = session->row.head;
    turn.row.state = TurnState::kCommitted;
    turn.row.epoch = session->row.epoch;
    if (absl::Status status = InsertTurn(database, turn); !status.ok()) return status;
    if (absl::Status status = AddPathSum(database, *number); !status.ok()) return status;
    session->row.head = *number;
    session->row.position = turn.row.position;
    numbers.push_back(*number);
  }
  if (import.properties_of) session->row.properties = import.properties_of(numbers);
  session->row.version = 0;  // WriteSession adds 1
  return WriteSession(database, *std::move(session));
}

absl::StatusOr<Applied> Make(Database& database, const StartTurn& start) {
  absl::StatusOr<NumberedSession> session = FencedSession(database, start.fence);
  if (!session.ok()) return session.status();
  absl::Status is_new = CheckTurnIsNew(database, start.fence.key, start.turn.id);
  if (!is_new.ok()) return is_new;
  const absl::StatusOr<int64_t> number = NextNumber(database, "turns");
  if (!number.ok()) return number.status();
  NumberedTurn turn{session->number, start.turn};
  TurnRow& row = turn.row;
  row.number = *number;
  row.session = session->row.key;
  row.parent = session->row.head;
  row.state = TurnState::kStarted;
  row.epoch = session->row.epoch;
  row.position = 0;
  row.end_time = absl::InfiniteFuture();
  row.result.clear();
  if (absl::Status status = InsertTurn(database, turn); !status.ok()) return status;
  session->row.last_use_time = row.start_time;
  absl::StatusOr<Applied> applied = WriteSession(database, *std::move(session));
  if (applied.ok()) applied->turn = *number;
  return applied;
}

absl::StatusOr<Applied> Make(Database& database, const CommitTurn& commit) {
  absl::StatusOr<NumberedSession> session = FencedSession(database, commit.fence);
  if (!session.ok()) return session.status();
  absl::StatusOr<NumberedTurn> turn = StartedTurn(database, *session, commit.turn);
  if (!turn.ok()) return turn.status();
  if (turn->row.parent != session->row.head) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: turn ", commit.turn, " started after turn ", turn->row.parent,
                     ", and the head is turn ", session->row.head));
  }
  turn->row.state = TurnState::kCommitted;
  turn->row.position = commit.position;
  turn->row.result = commit.result;
  turn->row.end_time = commit.now;
  if (absl::Status status = WriteEnd(database, *turn); !status.ok()) return status;
  if (absl::Status status = AddPathSum(database, commit.turn); !status.ok()) return status;
  session->row.head = commit.turn;
  session->row.position = commit.position;
  session->row.last_use_time = commit.now;
  session->row.delete_time = commit.delete_time;
  return WriteSession(database, *std::move(session));
}

absl::StatusOr<Applied> Make(Database& database, const AbandonTurn& abandon) {
  absl::StatusOr<NumberedSession> session = FencedSession(database, abandon.fence);
  if (!session.ok()) return session.status();
  absl::StatusOr<NumberedTurn> turn = StartedTurn(database, *session, abandon.turn);
  if (!turn.ok()) return turn.status();
  turn->row.state = TurnState::kAbandoned;
  turn->row.result = abandon.result;
  turn->row.end_time = abandon.now;
  if (absl::Status status = WriteEnd(database, *turn); !status.ok()) return status;
  session->row.last_use_time = abandon.now;
  return WriteSession(database, *std::move(session));
}

absl::StatusOr<Applied> Make(Database& database, const MoveHead& move) {
  absl::StatusOr<NumberedSession> session = FencedSession(database, move.fence);
  if (!session.ok()) return session.status();
  const absl::StatusOr<uint64_t> position = PositionOfHead(database, move.head);
  if (!position.ok()) return position.status();
  if (move.head != session->row.head) {
    absl::Status status = LeaveHead(database, session->row.head, move.now.value_or(absl::Now()));
    if (!status.ok()) return status;
  }
  session->row.head = move.head;
  session->row.position = *position;
  if (move.now.has_value()) session->row.last_use_time = *move.now;
  if (move.properties.has_value()) session->row.properties = *move.properties;
  return WriteSession(database, *std::move(session));
}

constexpr const char* kLockLeases =
    "SELECT 1 FROM leases WHERE holder IN (?1, ?2) ORDER BY replica /*FOR SHARE*/";
constexpr const char* kLockFleet = "SELECT 1 FROM fleet /*FOR SHARE*/";
constexpr const char* kReadLeases = "SELECT " LONGSTREAM_LEASE_HOLDS(
    "?1") ", " LONGSTREAM_LEASE_HOLDS("?2") ", " LONGSTREAM_CLAIMS_ALLOWED;
constexpr const char* kReadingLeases = "look at the leases of replicas";

absl::StatusOr<StatementUse> UseFor(Database& database, const char* sql, std::string_view owner,
                                    std::string_view taker) {
  absl::StatusOr<StatementUse> select = database.Use(sql);
  if (!select.ok()) return select;
  (*select)->BindText(0, owner);
  (*select)->BindText(1, taker);
  return select;
}

// Waits for the locks that the query takes.
absl::Status WaitForLocks(Database& database, Statement& select) {
  Stepped code = Stepped::kRow;
  while (code == Stepped::kRow) code = select.Step();
  return code == Stepped::kDone ? absl::OkStatus() : database.Error(kReadingLeases);
}

absl::Status NotAllowed(const SessionRow& session, std::string_view why) {
  return absl::PermissionDeniedError(absl::StrCat("store: session ", session.key.id.ToString(),
                                                  ": ", absl::string_view(why.data(), why.size())));
}

// Whether the condition of the change holds for the session, whose row is locked. The leases are
// locked first, so no renewal or release of them is made until the transaction has ended. Then the
// time is asked for, when there is nothing left to wait for.
//
// Locks are taken in this order: rows of sessions, rows of leases by their replica, the row of the
// fleet. Claims share the locks of leases and of the fleet, and a renewal or a release waits for
// nothing while it has the lock of its row. So no two transactions wait for each other's leases.
// A transfer locks the taker's lease only: if many replicas took sessions of one replica, it could
// wait for its renewal for long, because new shared locks pass a renewal that waits.
// Two servers' transactions can wait for each other's sessions only if they have several changes of
// one session (AnnounceReads); PostgreSQL then ends one of them, which is made again.
absl::Status CheckLeases(Database& database, const SessionRow& session, const ChangeOwner& change) {
  if (change.condition == OwnerCondition::kNone) return absl::OkStatus();
  const absl::StatusOr<bool> has_leases = database.HasTable("leases");
  if (!has_leases.ok()) return has_leases.status();
  if (!*has_leases) {
    return absl::FailedPreconditionError("store: a store in a directory has no fleet");
  }
  const bool is_claim = change.condition == OwnerCondition::kClaim;
  absl::StatusOr<StatementUse> leases =
      UseFor(database, kLockLeases, is_claim ? session.owner : change.owner, change.owner);
  if (!leases.ok()) return leases.status();
  absl::StatusOr<StatementUse> fleet = database.Use(kLockFleet);
  if (!fleet.ok()) return fleet.status();
  absl::StatusOr<StatementUse> read = UseFor(database, kReadLeases, session.owner, change.owner);
  if (!read.ok()) return read.status();
  // All are sent at once. The server executes one after the other, so the last one asks for the
  // time when the leases are locked.
  (*leases)->Announce();
  if (is_claim) (*fleet)->Announce();
  (*read)->Announce();
  if (absl::Status status = WaitForLocks(database, **leases); !status.ok()) return status;
  if (is_claim) {
    if (absl::Status status = WaitForLocks(database, **fleet); !status.ok()) return status;
  }
  if ((*read)->Step() != Stepped::kRow) return database.Error(kReadingLeases);
  const bool owner_lives = (*read)->Int(0) != 0, taker_lives = (*read)->Int(1) != 0;
  const bool claims_allowed = (*read)->Int(2) != 0;
  if (!taker_lives) {
    return NotAllowed(session, absl::StrCat("the lease of ", change.owner, " is over"));
  }
  if (!is_claim) return absl::OkStatus();
  if (owner_lives) {
    return NotAllowed(session,
                      absl::StrCat("the lease of its owner ", session.owner, " is not over"));
  }
  if (!claims_allowed) {
    return NotAllowed(session, "the database was started again, so no claims are allowed yet");
  }
  return absl::OkStatus();
}

absl::StatusOr<Applied> Make(Database& database, const ChangeOwner& change) {
  absl::StatusOr<NumberedSession> session = FencedSession(database, change.fence);
  if (!session.ok()) return session.status();
  absl::Status allowed = CheckLeases(database, session->row, change);
  if (!allowed.ok()) return allowed;
  session->row.owner = change.owner;
  ++session->row.epoch;
  return WriteSession(database, *std::move(session));
}

absl::StatusOr<Applied> Make(Database& database, const CloseSession& close) {
  absl::StatusOr<NumberedSession> session =
      close.fence ? FencedSession(database, *close.fence) : FindSession(database, close.key);
  if (!session.ok()) return session.status();
  absl::Status status = LeaveHead(database, session->row.head, close.now);
  if (!status.ok()) return status;
  // Its turns stay for a while, because forks may need them.
  absl::StatusOr<StatementUse> notes = database.Use("DELETE FROM notes WHERE session = ?1");
  if (!notes.ok()) return notes.status();
  (*notes)->Bind(0, session->number);
  status = database.Run(**notes, "remove the notes of a session");
  if (!status.ok()) return status;
  session->row.head = kNoTurn;
  session->close_time = close.now;
  return WriteSession(database, *std::move(session));
}

absl::StatusOr<Applied> Make(Database& database, const AddSnapshot& add) {
  if (absl::Status status = AddSnapshotRows(database, add); !status.ok()) {
    ForgetWrittenRows(add);
    return status;
  }
  return Applied{.turn = add.snapshot.turn};
}

absl::Status RemoveNote(Database& database, int64_t session, const std::string& key) {
  absl::StatusOr<StatementUse> remove =
      database.Use("DELETE FROM notes WHERE session = ?1 AND key = ?2");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, session);
  (*remove)->BindBlob(1, key);
  return database.Run(**remove, "remove a note");
}

// Keeps the notes of a session that were written last, within the limits, and removes the others.
absl::Status RemoveOldNotes(Database& database, int64_t session, const PutNotes& put) {
  std::vector<std::string> old;
  {
    absl::StatusOr<StatementUse> select = database.Use(
        "SELECT key, length(value) FROM notes WHERE session = ?1 ORDER BY time DESC, key DESC");
    if (!select.ok()) return select.status();
    (*select)->Bind(0, session);
    size_t notes = 0;
    uint64_t bytes = 0;
    Stepped code = Stepped::kRow;
    while ((code = (*select)->Step()) == Stepped::kRow) {
      ++notes;
      bytes += static_cast<uint64_t>((*select)->Int(1));
      if (notes > put.most_notes || bytes > put.most_bytes) old.push_back((*select)->Bytes(0));
    }
    if (code != Stepped::kDone) return database.Error("look for old notes");
  }
  for (const std::string& key : old) {
    if (absl::Status status = RemoveNote(database, session, key); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<Applied> Make(Database& database, const PutNotes& put) {
  const absl::StatusOr<NumberedSession> session = FindSession(database, put.session);
  if (!session.ok()) return session.status();
  const absl::StatusOr<NoteSums> before = FindNoteSums(database, put.session);
  if (!before.ok()) return before.status();
  // The clock of another replica may be ahead, but these are the last ones.
  const absl::Time time =
      absl::FromUnixMicros(std::max(Microseconds(put.now), before->last_time + 1));
  for (const NoteRow& row : put.notes) {
    NumberedNote note{session->number, row};
    note.row.session = put.session;
    note.row.time = time;
    absl::Status status = row.value.empty() ? RemoveNote(database, session->number, row.key)
                                            : WriteNote(database, note);
    if (!status.ok()) return status;
  }
  uint64_t added = 0;
  for (const NoteRow& row : put.notes) added += row.value.size();
  // The sums are too large where notes were replaced, so most changes need not add up again.
  const bool may_exceed =
      static_cast<uint64_t>(before->notes) + put.notes.size() > put.most_notes ||
      static_cast<uint64_t>(before->bytes) + added > put.most_bytes;
  if (may_exceed) {
    absl::Status status = RemoveOldNotes(database, session->number, put);
    if (!status.ok()) return status;
  }
  return Applied{};
}

absl::StatusOr<Applied> Make(Database& database, const PutAlias& put) {
  if (put.arms.has_value()) {
    if (absl::Status status = WriteAlias(database, {put.name, *put.arms}); !status.ok()) {
      return status;
    }
    return Applied{};
  }
  absl::StatusOr<StatementUse> remove = database.Use("DELETE FROM aliases WHERE name = ?1");
  if (!remove.ok()) return remove.status();
  (*remove)->BindText(0, put.name);
  if (absl::Status status = database.Run(**remove, "remove an alias"); !status.ok()) return status;
  return Applied{};
}

}  // namespace

absl::StatusOr<Applied> ApplyChange(Database& database, const Change& change) {
  absl::StatusOr<Applied> applied = absl::UnknownError("");
  // Other changes write rows only after all that can refuse them has been read.
  const bool fails_late = std::holds_alternative<AddSnapshot>(change);
  absl::Status status = database.MakeWhole(fails_late, [&] {
    applied = std::visit([&](const auto& one) { return Make(database, one); }, change);
    return applied.status();
  });
  if (applied.ok() && !status.ok()) return status;
  return applied;
}

}  // namespace longstream::store
