// Each change reads the rows that it changes, checks them, and writes them with new checksums.
#include "service/sessions/store/sqlite/apply_change.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/sqlite/snapshots.h"

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
  const absl::StatusOr<NumberedTurn> turn = FindTurn(database, head);
  if (!turn.ok()) return turn.status();
  if (turn->row.state != TurnState::kCommitted) {
    return absl::NotFoundError(absl::StrCat("store: turn ", head, " is not committed"));
  }
  return turn->row.position;
}

// The turn of the session, which must have started and not ended.
absl::StatusOr<NumberedTurn> StartedTurn(Database& database, const NumberedSession& session,
                                         TurnNumber number) {
  absl::StatusOr<NumberedTurn> turn = FindTurn(database, number);
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

// The number of the next row of a table. Numbers of removed rows are not used again.
absl::StatusOr<int64_t> NextNumber(Database& database, absl::string_view table) {
  absl::StatusOr<StatementUse> select =
      database.Use("SELECT seq + 1 FROM sqlite_sequence WHERE name = ?1");
  if (!select.ok()) return select.status();
  (*select)->BindText(0, {table.data(), table.size()});
  const int code = (*select)->Step();
  if (code == SQLITE_ROW) return (*select)->Int(0);
  if (code == SQLITE_DONE) return 1;
  return database.Error(code, "draw a number");
}

// The head of a session moves away from this turn: remember when. A damaged turn must not hold the
// head, so its row stays as it is.
absl::Status LeaveHead(Database& database, TurnNumber head, absl::Time now) {
  if (head == kNoTurn) return absl::OkStatus();
  absl::StatusOr<NumberedTurn> turn = FindTurn(database, head);
  if (absl::IsDataLoss(turn.status()) || absl::IsNotFound(turn.status())) return absl::OkStatus();
  if (!turn.ok()) return turn.status();
  turn->left_time = std::max(turn->left_time, now);
  return WriteTurn(database, *turn);
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
  absl::Status status = database.Run(**insert, "add a turn");
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(absl::StrCat("store: session ", turn.row.session.id.ToString(),
                                               " has a turn ", turn.row.id.ToString()));
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
  if (absl::Status status = WriteTurn(database, *turn); !status.ok()) return status;
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
  if (absl::Status status = WriteTurn(database, *turn); !status.ok()) return status;
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

absl::StatusOr<Applied> Make(Database& database, const ChangeOwner& change) {
  absl::StatusOr<NumberedSession> session = FencedSession(database, change.fence);
  if (!session.ok()) return session.status();
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

namespace {

absl::StatusOr<NumberedTurn> SelectTurn(
    Database& database, const char* sql, TurnNumber number,
    absl::StatusOr<NumberedTurn> (*read)(const Statement& statement)) {
  absl::StatusOr<StatementUse> select = database.Use(sql);
  if (!select.ok()) return select.status();
  (*select)->Bind(0, number);
  const int code = (*select)->Step();
  if (code == SQLITE_ROW) return read(**select);
  if (code != SQLITE_DONE) return database.Error(code, "read a turn");
  return absl::NotFoundError(absl::StrCat("store: there is no turn ", number));
}

}  // namespace

absl::StatusOr<NumberedSession> FindSession(Database& database, const SessionKey& key) {
  absl::StatusOr<StatementUse> select =
      database.Use("SELECT " LONGSTREAM_SESSION_COLUMNS
                   " FROM sessions WHERE tenant = ?1 AND id = ?2 AND close_time IS NULL");
  if (!select.ok()) return select.status();
  const std::string id = key.id.Bytes();
  (*select)->BindText(0, key.tenant);
  (*select)->BindBlob(1, id);
  const int code = (*select)->Step();
  if (code == SQLITE_ROW) return ReadSession(**select);
  if (code != SQLITE_DONE) return database.Error(code, "read a session");
  return absl::NotFoundError(absl::StrCat("store: there is no session ", key.id.ToString()));
}

absl::StatusOr<NumberedTurn> FindTurn(Database& database, TurnNumber number) {
  return SelectTurn(database,
                    "SELECT " LONGSTREAM_TURN_COLUMNS
                    " FROM turns t JOIN sessions s ON s.number = t.session WHERE t.number = ?1",
                    number, ReadTurn);
}

absl::StatusOr<NumberedTurn> FindTurnLink(Database& database, TurnNumber number) {
  return SelectTurn(database,
                    "SELECT " LONGSTREAM_TURN_LINK_COLUMNS
                    " FROM turns t JOIN sessions s ON s.number = t.session WHERE t.number = ?1",
                    number, ReadTurnLink);
}

absl::Status WriteTurn(Database& database, const NumberedTurn& turn) {
  absl::StatusOr<StatementUse> update = database.Use(
      "UPDATE turns SET id = ?1, parent = ?2, state = ?3, epoch = ?4, kept_position = ?5,"
      " position = ?6, start_time = ?7, end_time = ?8, request_digest = ?9, request_checksum = ?10,"
      " result_checksum = ?11, checksum = ?12, request = ?13, result = ?14, session = ?15,"
      " left_time = ?16 WHERE number = ?17");
  if (!update.ok()) return update.status();
  const BoundTurn bound(**update, turn);
  return database.Run(**update, "write a turn");
}

absl::StatusOr<Applied> ApplyChange(Database& database, const Change& change) {
  if (absl::Status status = database.Execute("SAVEPOINT change"); !status.ok()) return status;
  absl::StatusOr<Applied> applied =
      std::visit([&](const auto& one) { return Make(database, one); }, change);
  // The database may have ended the whole transaction because of an error. Then there is no
  // savepoint, and the caller notices.
  if (!applied.ok()) database.Execute("ROLLBACK TO change").IgnoreError();
  database.Execute("RELEASE change").IgnoreError();
  return applied;
}

}  // namespace longstream::store
