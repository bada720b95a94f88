// Copies piece by piece.
#include "service/serving/caches/snapshot_io.h"

#include <span>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "service/clock/monotonic_time.h"

namespace longstream {
namespace {

absl::Status WriteSegment(Snapshot& snapshot, Snapshot::Segment segment,
                          const store::SegmentRow& row, store::SegmentWriter& writer,
                          const std::function<absl::Status()>& rest, uint64_t* bytes) {
  if (absl::Status status = writer.Begin(row); !status.ok()) return status;
  std::vector<std::byte> piece(kSnapshotPieceBytes);
  while (true) {
    const absl::StatusOr<size_t> read = snapshot.Read(segment, piece);
    if (!read.ok()) return read.status();
    const std::string_view text(reinterpret_cast<const char*>(piece.data()), *read);
    if (absl::Status status = writer.Append(text); !status.ok()) return status;
    *bytes += *read;
    if (*read < piece.size()) return absl::OkStatus();
    if (absl::Status status = rest(); !status.ok()) return status;
  }
}

absl::Status ReadSegment(store::SessionStore* store, const std::string& tenant,
                         const store::SegmentRow& row, CacheFill& fill) {
  absl::StatusOr<std::unique_ptr<store::SegmentReader>> reader =
      store->ReadSegment(tenant, row.key);
  if (!reader.ok()) return reader.status();
  std::vector<char> piece(kSnapshotPieceBytes);
  while (true) {
    const absl::StatusOr<size_t> read = (*reader)->Read(absl::MakeSpan(piece));
    if (!read.ok()) return read.status();
    if (*read > 0) {
      absl::Status status = fill.Write(std::as_bytes(std::span(piece).first(*read)));
      if (!status.ok()) return status;
    }
    if (*read < piece.size()) return absl::OkStatus();
  }
}

}  // namespace

absl::StatusOr<uint64_t> WriteSegments(Snapshot& snapshot, const NewSegments& segments,
                                       store::SegmentWriter& writer,
                                       const std::function<absl::Status()>& rest) {
  uint64_t bytes = 0;
  absl::Status status;
  if (segments.span.has_value()) {
    status = WriteSegment(snapshot, Snapshot::Segment::kSpan, *segments.span, writer, rest, &bytes);
  }
  if (status.ok() && segments.fixed.has_value()) {
    status =
        WriteSegment(snapshot, Snapshot::Segment::kFixed, *segments.fixed, writer, rest, &bytes);
  }
  if (!status.ok()) return status;
  return bytes;
}

StoredCaches::Filled ReadSnapshot(store::SessionStore* store, const std::string& tenant,
                                  const store::SnapshotRow& row, CacheFill& fill) {
  StoredCaches::Filled filled;
  const MonotonicTime begin = MonotonicTime::Now();
  const absl::StatusOr<std::vector<store::SegmentRow>> segments = store->Segments(tenant, row);
  filled.status = segments.status();
  for (size_t i = 0; filled.status.ok() && i < segments->size(); ++i) {
    const store::SegmentRow& segment = (*segments)[i];
    filled.status = ReadSegment(store, tenant, segment, fill);
    filled.bytes += segment.bytes;
    if (segment.kind == store::SegmentKind::kSpan) filled.span_ends.push_back(segment.end);
  }
  filled.time = MonotonicTime::Now() - begin;
  return filled;
}

}  // namespace longstream
