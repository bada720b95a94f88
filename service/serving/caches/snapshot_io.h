// Moves the bytes of snapshots between a model's caches and the store.
#ifndef LONGSTREAM_SERVICE_SERVING_CACHES_SNAPSHOT_IO_H_
#define LONGSTREAM_SERVICE_SERVING_CACHES_SNAPSHOT_IO_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/models/backend_model.h"
#include "service/sessions/store/session_store.h"
#include "service/sessions/stored_caches.h"

namespace longstream {

// A piece takes a fraction of a millisecond, so that other work of the machine hardly waits for it.
inline constexpr size_t kSnapshotPieceBytes = size_t{256} << 10;

// The segments of a snapshot. Absent ones are in the store, or there is no span.
struct NewSegments {
  std::optional<store::SegmentRow> span;
  std::optional<store::SegmentRow> fixed;
};

// Appends the segments to a writer. Calls `rest` after each piece, and ends with its error. Returns
// how many bytes it has appended. Other errors are those of SegmentWriter and Snapshot::Read.
absl::StatusOr<uint64_t> WriteSegments(Snapshot& snapshot, const NewSegments& segments,
                                       store::SegmentWriter& writer,
                                       const std::function<absl::Status()>& rest);

// Reads all segments of a snapshot into `fill`. Errors as for SessionStore::Segments, ReadSegment,
// SegmentReader::Read and CacheFill::Write.
StoredCaches::Filled ReadSnapshot(store::SessionStore* store, const std::string& tenant,
                                  const store::SnapshotRow& row, CacheFill& fill);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_CACHES_SNAPSHOT_IO_H_
