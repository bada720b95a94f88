// Recursive queries. A parent is older than its children, so a damaged link cannot make a circle.
#include "service/sessions/store/sql/turn_path.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/sql/rows.h"
#include "service/sessions/store/sql/segment_rows.h"

namespace longstream::store {
namespace {

// At most ?2 turns from ?1 on, as long as those before have no more than ?3 bytes. `size`: of one
// turn `t`. A database knows the length of a blob without its contents.
#define LONGSTREAM_TURNS_FROM(size)                                                 \
  "WITH RECURSIVE path(number, parent, turns, bytes) AS ("                          \
  "  SELECT t.number, t.parent, CAST(1 AS INTEGER), CAST(" size                     \
  " AS INTEGER) FROM turns t WHERE t.number = ?1"                                   \
  "  UNION ALL"                                                                     \
  "  SELECT t.number, t.parent, path.turns + 1, path.bytes + " size                 \
  "    FROM path JOIN turns t ON t.number = path.parent AND t.number < path.number" \
  "      AND path.turns < ?2 AND path.bytes <= ?3)"

constexpr int64_t kPageBytes = int64_t{4} << 20;

// The rows have no order: a database might sort them with their contents, in a file.
constexpr const char* kSelectTurns = LONGSTREAM_TURNS_FROM(
    "length(t.request) + length(t.result)") " SELECT " LONGSTREAM_TURN_COLUMNS
                                            " FROM path JOIN turns t ON t.number = path.number"
                                            " JOIN sessions s ON s.number = t.session";
constexpr const char* kSelectLinks =
    LONGSTREAM_TURNS_FROM("0") " SELECT " LONGSTREAM_TURN_LINK_COLUMNS
                               " FROM path JOIN turns t ON t.number = path.number"
                               " JOIN sessions s ON s.number = t.session";

absl::StatusOr<StatementUse> UseForPath(Database& database, const char* sql, TurnNumber number,
                                        int64_t limit) {
  absl::StatusOr<StatementUse> select = database.Use(sql);
  if (!select.ok()) return select;
  (*select)->Bind(0, number);
  (*select)->Bind(1, limit);
  (*select)->Bind(2, kPageBytes);
  return select;
}

// A row that may be damaged, and the number that it has.
struct ReadRow {
  TurnNumber number = kNoTurn;
  absl::StatusOr<NumberedTurn> turn;
};

}  // namespace

TurnPage ReadTurnPage(Database& database, TurnNumber number, TurnContents contents, int64_t limit) {
  TurnPage page;
  const bool reads = contents == TurnContents::kRead;
  absl::StatusOr<StatementUse> select =
      UseForPath(database, reads ? kSelectTurns : kSelectLinks, number, limit);
  if (!select.ok()) {
    page.error = select.status();
    return page;
  }
  std::vector<ReadRow> rows;
  Stepped code = Stepped::kRow;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    rows.push_back({(*select)->Int(0), reads ? ReadTurn(**select) : ReadTurnLink(**select)});
  }
  if (code != Stepped::kDone) {
    page.error = database.Error("read turns");
    return page;
  }
  std::ranges::sort(rows, std::ranges::greater(), &ReadRow::number);
  for (ReadRow& row : rows) {
    // The row of its session is missing.
    if (row.number != number) break;
    if (!row.turn.ok()) {
      page.error = row.turn.status();
      return page;
    }
    number = row.turn->row.parent;
    page.turns.push_back(std::move(row.turn->row));
  }
  if (page.turns.empty()) {
    page.error = absl::NotFoundError(absl::StrCat("store: there is no turn ", number));
  }
  return page;
}

absl::StatusOr<std::vector<SnapshotRow>> SnapshotsOfPath(Database& database, TurnNumber number,
                                                         int64_t limit) {
  absl::StatusOr<StatementUse> select = UseForPath(
      database,
      LONGSTREAM_TURNS_FROM(
          "0") " SELECT " LONGSTREAM_SNAPSHOT_COLUMNS
               " FROM (SELECT s.* FROM path JOIN snapshots s ON s.turn = path.number) AS found"
               " ORDER BY turn DESC, number DESC",
      number, limit);
  if (!select.ok()) return select.status();
  std::vector<SnapshotRow> snapshots;
  Stepped code = Stepped::kRow;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    absl::StatusOr<SnapshotRow> snapshot = ReadSnapshot(**select);
    if (snapshot.ok()) snapshots.push_back(*std::move(snapshot));
  }
  if (code != Stepped::kDone) return database.Error("read the snapshots of turns");
  return snapshots;
}

absl::StatusOr<std::vector<SegmentKey>> SegmentsOfPath(Database& database, TurnNumber number,
                                                       int64_t limit) {
  absl::StatusOr<StatementUse> select = UseForPath(
      database,
      LONGSTREAM_TURNS_FROM("0") " SELECT snapshots.span, snapshots.fixed"
      " FROM path JOIN snapshots ON snapshots.turn = path.number ORDER BY path.number DESC",
      number, limit);
  if (!select.ok()) return select.status();
  std::vector<SegmentKey> keys;
  Stepped code = Stepped::kRow;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    for (const int column : {0, 1}) {
      const std::optional<SegmentKey> key = KeyOf((*select)->Bytes(column));
      if (key.has_value()) keys.push_back(*key);  // otherwise there is none, or it is damaged
    }
  }
  if (code != Stepped::kDone) return database.Error("read the snapshots of turns");
  return keys;
}

}  // namespace longstream::store
