// Snapshots of caches: the rows that name them, and the pieces of which they are written and read.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/sessions/store/log_records.h"

namespace longstream::store {

// Names the contents of a segment within a tenant: segments with the same key are interchangeable.
// The caller computes it, as a SHA-256; the store does not read it.
struct SegmentKey {
  std::array<unsigned char, 32> bytes = {};

  // 64 hexadecimal digits.
  std::string ToString() const;

  friend auto operator<=>(const SegmentKey&, const SegmentKey&) = default;
};

enum class SegmentKind {
  kSpan = 1,   // the tokens [begin, end) of a history. Longer histories need it, too
  kFixed = 2,  // the rest of the caches at one position
};

struct SegmentRow {
  SegmentKey key;
  SegmentKind kind = SegmentKind::kSpan;
  std::optional<SegmentKey> previous =
      std::nullopt;  // of a span: the span before it, if there is one
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes = 0;  // that it takes in the store, which sets it

  friend bool operator==(const SegmentRow&, const SegmentRow&) = default;
};

// The caches after a committed turn: the span `span` with all spans before it, and a fixed block.
struct SnapshotRow {
  TurnNumber turn = kNoTurn;
  std::string cache;  // what the store does not read. A turn has one snapshot for each
  uint64_t position = 0;
  std::optional<SegmentKey> span = std::nullopt;  // the last one; absent: there is no span
  SegmentKey fixed;

  friend bool operator==(const SnapshotRow&, const SnapshotRow&) = default;
};

// Segments that are durable, and that no row names yet. AddSnapshot makes the rows. When the last
// reference to this object goes, files without a row are removed.
class WrittenSegments {
 public:
  WrittenSegments() = default;
  virtual ~WrittenSegments() = default;
  WrittenSegments(const WrittenSegments&) = delete;
  WrittenSegments& operator=(const WrittenSegments&) = delete;

  // In the order in which they were written, with their sizes.
  virtual const std::vector<SegmentRow>& rows() const = 0;
  // Bytes of memory that the object takes until it goes.
  virtual size_t bytes_in_memory() const = 0;
};

// Writes the new segments of one snapshot. Destroying it gives up what Finish has not returned.
//
// Every function may fail with
//   RESOURCE_EXHAUSTED  the disk has only the room that is kept for the log
//   UNAVAILABLE         the disk failed
// After that nothing but the destructor may be called. An error is not an error of the log, which
// stays as it is. One thread at a time may use it; it must not outlive the store.
class SegmentWriter {
 public:
  SegmentWriter() = default;
  virtual ~SegmentWriter() = default;
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Begins the next segment. A span comes behind the span before it.
  virtual absl::Status Begin(const SegmentRow& row) = 0;
  // Adds bytes to the segment. REQUIRES: a segment has begun.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Makes all segments durable, with one fsync for each file and one for their directory.
  virtual absl::StatusOr<std::shared_ptr<WrittenSegments>> Finish() = 0;
};

// Reads one segment from its beginning. It stays readable when the segment is collected meanwhile.
// One thread at a time may use it.
class SegmentReader {
 public:
  SegmentReader() = default;
  virtual ~SegmentReader() = default;
  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;

  virtual const SegmentRow& row() const = 0;
  // Fills the buffer with the next bytes, and returns how many they are: less than its size only at
  // the end of the segment. DATA_LOSS: bytes are missing, or, at the end, the checksum of the whole
  // segment differs. UNAVAILABLE: the disk failed.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> buffer) = 0;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_H_
