// A turn can go if it is old enough, is no head, and has no children.
#include "service/sessions/store/sql/collect.h"

#include <cstdint>
#include <vector>

#include "service/sessions/store/sql/find_rows.h"
#include "service/sessions/store/sql/rows.h"
#include "service/sessions/store/sql/snapshots.h"

namespace longstream::store {
namespace {

// Turns that are old enough, by number, youngest first. A turn that has started on the head of an
// open session can still be committed. The turns of a closed session stay known as long as the
// session does.
constexpr const char* kOldTurns =
    "SELECT t.number, s.close_time IS NULL FROM turns t JOIN sessions s ON s.number = t.session"
    " WHERE t.number BETWEEN ?1 AND ?2"
    " AND coalesce(t.end_time, t.start_time) < ?3"
    " AND (t.left_time IS NULL OR t.left_time < ?3)"
    " AND (s.close_time IS NULL AND t.state != 4 AND NOT (t.state = 1 AND t.parent IS NOT DISTINCT "
    "FROM s.head)"
    "  OR s.close_time < ?3)"
    " ORDER BY t.number DESC";

constexpr const char* kIsNeeded =
    "SELECT EXISTS (SELECT 1 FROM turns WHERE parent = ?1)"
    " OR EXISTS (SELECT 1 FROM sessions WHERE head = ?1)";

struct OldTurn {
  TurnNumber number = kNoTurn;
  bool session_is_open = false;
};

absl::StatusOr<std::vector<OldTurn>> OldTurns(Database& database, absl::Time before,
                                              TurnNumber first, TurnNumber last) {
  absl::StatusOr<StatementUse> select = database.Use(kOldTurns);
  if (!select.ok()) return select.status();
  (*select)->Bind(0, first);
  (*select)->Bind(1, last);
  (*select)->Bind(2, Microseconds(before));
  std::vector<OldTurn> turns;
  Stepped code;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    turns.push_back({(*select)->Int(0), (*select)->Int(1) != 0});
  }
  if (code != Stepped::kDone) return database.Error("look for old turns");
  return turns;
}

absl::StatusOr<bool> IsNeeded(Database& database, TurnNumber number) {
  absl::StatusOr<StatementUse> select = database.Use(kIsNeeded);
  if (!select.ok()) return select.status();
  (*select)->Bind(0, number);
  const Stepped code = (*select)->Step();
  if (code != Stepped::kRow) return database.Error("look for children of a turn");
  return (*select)->Int(0) != 0;
}

absl::Status RemoveTurn(Database& database, TurnNumber number) {
  absl::StatusOr<StatementUse> remove = database.Use("DELETE FROM turns WHERE number = ?1");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, number);
  return database.Run(**remove, "remove a turn");
}

// Keeps the turn's id and digest.
absl::Status EmptyTurn(Database& database, TurnNumber number) {
  absl::StatusOr<NumberedTurn> turn = FindTurn(database, number);
  if (!turn.ok()) return turn.status();
  turn->row.state = TurnState::kCollected;
  turn->row.parent = kNoTurn;
  turn->row.request.clear();
  turn->row.result.clear();
  return WriteTurn(database, *turn);
}

}  // namespace

absl::StatusOr<TurnNumber> LastTurn(Database& database) {
  absl::StatusOr<StatementUse> select = database.Use("SELECT max(number) FROM turns");
  if (!select.ok()) return select.status();
  const Stepped code = (*select)->Step();
  if (code != Stepped::kRow) return database.Error("look for the last turn");
  return (*select)->Int(0);
}

absl::StatusOr<size_t> CollectTurns(Database& database, absl::Time before, TurnNumber first,
                                    TurnNumber last) {
  const absl::StatusOr<std::vector<OldTurn>> turns = OldTurns(database, before, first, last);
  if (!turns.ok()) return turns.status();
  size_t collected = 0;
  for (const OldTurn& turn : *turns) {
    const absl::StatusOr<bool> needed = IsNeeded(database, turn.number);
    if (!needed.ok()) return needed.status();
    if (*needed) continue;
    absl::Status status = RemoveSnapshotsOf(database, turn.number);
    if (status.ok()) {
      status = turn.session_is_open ? EmptyTurn(database, turn.number)
                                    : RemoveTurn(database, turn.number);
    }
    if (absl::IsDataLoss(status)) continue;  // keep a damaged turn, which Check reports
    if (!status.ok()) return status;
    ++collected;
  }
  return collected;
}

absl::Status RemoveClosedSessions(Database& database, absl::Time before) {
  absl::StatusOr<StatementUse> remove = database.Use(
      "DELETE FROM sessions WHERE close_time < ?1"
      " AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.number)");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, Microseconds(before));
  return database.Run(**remove, "remove closed sessions");
}

}  // namespace longstream::store
