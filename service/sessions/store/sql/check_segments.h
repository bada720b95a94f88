// The files of segments, compared with their rows.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_CHECK_SEGMENTS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_CHECK_SEGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// The files that the database names, in any order, also those of collected segments.
struct NamedFiles {
  std::vector<std::string> names;
  uint64_t bytes = 0;
};
absl::StatusOr<NamedFiles> FilesWithRows(Database& database);

// Whether the file, which has no row, was last written before then, so that its row will not come
// any more.
bool IsOrphan(SegmentDirectory& directory, const std::string& name, absl::Time before);

// Runs a function with a connection that nobody else uses meanwhile.
using WithDatabase = std::function<void(const std::function<void(Database&)>&)>;

// A segment with the bytes that its row holds.
struct TenantSegment {
  std::string tenant;
  StoredSegment segment;
};
struct SegmentPage {
  std::vector<TenantSegment> segments;
  std::vector<std::string> damaged;  // one sentence for each damaged row
};
// Reads some rows with numbers greater than *after, and sets it to the last one, or to INT64_MAX if
// there are none.
absl::StatusOr<SegmentPage> ReadSegmentPage(Database& database, int64_t* after);

// Reads all segments and compares their sizes and checksums with their rows. With keys, each
// segment must be sealed and open; without, sealed segments are only compared. Also looks for files
// without a row; a file that was written less than ten minutes before `now` may get its row still.
// Adds one sentence for each fault, until there are `limit`.
void CheckSegmentFiles(const WithDatabase& with_database, SegmentFiles& files, absl::Time now,
                       size_t limit, std::vector<std::string>* faults);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_CHECK_SEGMENTS_H_
