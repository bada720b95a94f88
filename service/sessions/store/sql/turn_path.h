// The turns on the way from one to the root, and their snapshots: many rows with one query.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_TURN_PATH_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_TURN_PATH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sessions/store/log_records.h"
#include "service/sessions/store/segments.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

enum class TurnContents { kRead, kLeaveOut };

// A part of a path.
struct TurnPage {
  std::vector<TurnRow> turns;  // the first one, its parent and so on
  absl::Status error;  // of the turn behind them. OK: there is none, or it was not asked for
};

// Reads at most `limit` turns, from this one on. With contents, no further turn is read when their
// requests and results have more than 4 MiB. NOT_FOUND, DATA_LOSS: the next turn is missing or
// damaged. The turns before it are in the page.
TurnPage ReadTurnPage(Database& database, TurnNumber number, TurnContents contents, int64_t limit);

// The snapshots of at most `limit` turns, from this one on; those of later turns come first. Leaves
// out damaged ones.
absl::StatusOr<std::vector<SnapshotRow>> SnapshotsOfPath(Database& database, TurnNumber number,
                                                         int64_t limit);

// The segments that the snapshots of at most `limit` turns name, from this one on: fixed blocks,
// and last spans. The segments of later turns come first.
absl::StatusOr<std::vector<SegmentKey>> SegmentsOfPath(Database& database, TurnNumber number,
                                                       int64_t limit);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_TURN_PATH_H_
