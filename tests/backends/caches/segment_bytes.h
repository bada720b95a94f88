// Snapshots and imports of a sequence's caches in tests.
#ifndef LONGSTREAM_TESTS_BACKENDS_CACHES_SEGMENT_BYTES_H_
#define LONGSTREAM_TESTS_BACKENDS_CACHES_SEGMENT_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/caches/segments/cache_import.h"
#include "backends/caches/segments/cache_snapshot.h"

namespace longstream {

inline std::string ReadSegment(CacheSnapshot& snapshot, SegmentKind kind, size_t piece = 1000) {
  std::string bytes;
  std::string buffer(piece, '\0');
  size_t size = piece;
  while (size == piece) {
    size = snapshot.Read(kind, std::as_writable_bytes(std::span(buffer)));
    bytes.append(buffer, 0, size);
  }
  return bytes;
}

// The span from `from` on, then the fixed block.
inline std::string SegmentsOf(SequenceCache& cache, SnapshotMemoryPool& pool, uint64_t fingerprint,
                              uint64_t from = 0) {
  CacheSnapshot snapshot(cache, from, fingerprint, pool);
  const std::string span = ReadSegment(snapshot, SegmentKind::kSpan);
  return span + ReadSegment(snapshot, SegmentKind::kFixed);
}

// Imports segments in pieces of `piece` bytes. Throws BackendError.
inline std::unique_ptr<SequenceCache> FromSegments(SnapshotMemoryPool& pool, int64_t position,
                                                   uint64_t fingerprint, int64_t context_limit,
                                                   const std::string& bytes, size_t piece = 1000) {
  CacheImport import(position, fingerprint, context_limit, pool);
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    import.Write(
        std::as_bytes(std::span(bytes).subspan(begin, std::min(piece, bytes.size() - begin))));
  }
  import.RequireComplete();
  return import.Take();
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CACHES_SEGMENT_BYTES_H_
