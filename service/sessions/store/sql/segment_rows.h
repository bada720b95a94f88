// Rows of segments and snapshots as columns of tables, with their checksums.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SEGMENT_ROWS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SEGMENT_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "service/sessions/store/segments.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// The 32 bytes of a key.
std::string KeyBytes(const SegmentKey& key);
// Absent: `bytes` is no key.
std::optional<SegmentKey> KeyOf(const std::string& bytes);

// Columns for `SELECT ... FROM segments`, in the order that ReadSegmentRow expects. `data` comes
// behind them, or NULL if it is not needed.
#define LONGSTREAM_SEGMENT_COLUMNS \
  "tenant, key, kind, previous, begin_token, end_token, bytes, data_checksum, file, checksum"
// DATA_LOSS: the checksum differs. The message names the segment. The checksum of the segment's
// bytes is not compared.
absl::StatusOr<StoredSegment> ReadSegmentRow(const Statement& statement);
// Binds these columns and `data` as parameters 0 to 10.
class BoundSegment {
 public:
  BoundSegment(Statement& statement, const std::string& tenant, const StoredSegment& segment);

 private:
  std::string key_, previous_;  // the statement points to them
};

// Columns for `SELECT ... FROM snapshots`, in the order that ReadSnapshot expects.
#define LONGSTREAM_SNAPSHOT_COLUMNS "turn, tenant, cache, position, span, fixed, checksum"
// DATA_LOSS: the checksum differs. The message names the turn.
absl::StatusOr<SnapshotRow> ReadSnapshot(const Statement& statement);
// Binds these columns as parameters 0 to 6.
class BoundSnapshot {
 public:
  BoundSnapshot(Statement& statement, const std::string& tenant, const SnapshotRow& snapshot);

 private:
  std::string span_, fixed_;  // the statement points to them
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SEGMENT_ROWS_H_
