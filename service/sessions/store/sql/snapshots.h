// Snapshots in the database: adding them, and releasing segments that no snapshot needs any more.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SNAPSHOTS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SNAPSHOTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/log_records.h"
#include "service/sessions/store/segments.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// The segment without its bytes: `data` is empty. NOT_FOUND: the tenant has no such segment.
// DATA_LOSS: its row is damaged.
absl::StatusOr<StoredSegment> FindStoredSegment(Database& database, const std::string& tenant,
                                                const SegmentKey& key);
// The same, with `data`.
absl::StatusOr<StoredSegment> ReadStoredSegment(Database& database, const std::string& tenant,
                                                const SegmentKey& key);
// The span with this key and the spans before it, with one query, in any order and without their
// bytes. Leaves out damaged ones. A span that does not begin behind the one before it ends them.
absl::StatusOr<std::vector<StoredSegment>> SpansUpTo(Database& database, const std::string& tenant,
                                                     const SegmentKey& key);

// Bytes of the requests and results of the turns from this one to the root. Reads neither requests
// nor results, and only one turn if its sum is known.
absl::StatusOr<uint64_t> PathBytes(Database& database, TurnNumber number);
// Notes the sum of a turn that has been committed, so that PathBytes knows it. REQUIRES: a
// transaction is open.
absl::Status AddPathSum(Database& database, TurnNumber number);
// Bytes of a span and of the spans before it. Reads only one span if its sum is known.
absl::StatusOr<uint64_t> SpanBytes(Database& database, const std::string& tenant,
                                   const SegmentKey& key);
// A file whose segment has no row any more.
struct DeadFile {
  std::string name;
  uint64_t bytes = 0;
};

// The functions below need an open transaction. A segment that they release loses its row, and its
// file becomes a dead one.

// Makes the rows of the snapshot and of its written segments, and notes in `add.written` which
// segments have got one.
absl::Status AddSnapshotRows(Database& database, const AddSnapshot& add);
// Makes the row of a written segment. It takes the place of one with the same key, which may be
// damaged. FAILED_PRECONDITION: the segment before it is missing.
absl::Status PutSegment(Database& database, const std::string& tenant,
                        const StoredSegment& segment);
// The rows that AddSnapshotRows has made were undone. Needs no transaction.
void ForgetWrittenRows(const AddSnapshot& add);

absl::Status RemoveSnapshotsOf(Database& database, TurnNumber turn);

// Removes at most `limit` snapshots, the ones that were written longest ago. Returns how many.
absl::StatusOr<size_t> RemoveOldestSnapshots(Database& database, size_t limit);

// The greatest number of a row of segments or snapshots.
absl::StatusOr<int64_t> LastSegmentNumber(Database& database);
// Among the rows with numbers from `first` to `last`: removes snapshots of turns that are not
// committed, and releases segments that nothing needs. A program of version 1, or damage, can leave
// such rows.
absl::Status ReleaseForgotten(Database& database, int64_t first, int64_t last);

// Bytes of all dead files.
absl::StatusOr<uint64_t> DeadBytes(Database& database);
// Whether OldDeadFiles would return or change something. Only reads.
absl::StatusOr<bool> HasDeadFiles(Database& database, absl::Time now, absl::Duration age);
// Files that have been dead for `age`, at most `limit`. A file that became dead since the last call
// is dead since `now`, and so is one that has a later time than `now`.
absl::StatusOr<std::vector<DeadFile>> OldDeadFiles(Database& database, absl::Time now,
                                                   absl::Duration age, size_t limit);
// The file has been removed. Returns whether the database still had it.
absl::StatusOr<bool> ForgetDeadFile(Database& database, const std::string& name);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SNAPSHOTS_H_
