// Reading segments that may be sealed.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEALED_SEGMENTS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEALED_SEGMENTS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/segments.h"
#include "service/sessions/store/segments/segment_files.h"

namespace longstream::store {

// DATA_LOSS. The message names the segment.
absl::Status DamagedSegment(const StoredSegment& segment, const std::string& what);

// The context of a sealed segment (BlockCipher): its key, kind, place and predecessor. Segments of
// two tenants with the same context have the same bytes, so either may stand for the other.
std::string SealingContext(const SegmentRow& row);

// A reader of the segment's bytes. `stored`: reads them as they are stored. With keys, the segment
// must be sealed; without (null), it must not be. Otherwise the first Read is DATA_LOSS.
std::unique_ptr<SegmentReader> NewOpeningReader(StoredSegment segment,
                                                std::unique_ptr<SegmentReader> stored,
                                                std::shared_ptr<const SealingKeys> keys);

// Reads the segment to its end, and calls `take` with each piece of its bytes. Returns the first
// error of the reader or of `take`.
absl::Status ReadPieces(SegmentReader& from,
                        const std::function<absl::Status(std::string_view)>& take);

// Segments that are not sealed: somebody without a key can put them into a store.
enum class Unsealed { kRefuse, kSeal };

// Opens the whole segment, and writes it again, sealed with the first key. Returns null if the
// first key has sealed it already. DATA_LOSS: it cannot be opened, or it is not sealed and
// `unsealed` is kRefuse. REQUIRES: `files` has keys.
absl::StatusOr<std::shared_ptr<WrittenSegments>> SealAgain(SegmentFiles& files,
                                                           const StoredSegment& segment,
                                                           Unsealed unsealed);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEALED_SEGMENTS_H_
