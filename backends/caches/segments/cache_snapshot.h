// The caches of a sequence at one moment, to be read as segments.
#ifndef LONGSTREAM_BACKENDS_CACHES_SEGMENTS_CACHE_SNAPSHOT_H_
#define LONGSTREAM_BACKENDS_CACHES_SEGMENTS_CACHE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/caches/segments/segment_format.h"
#include "backends/caches/segments/segment_reader.h"
#include "backends/caches/segments/snapshot_memory.h"
#include "backends/caches/sequence_cache.h"

namespace longstream {

// Holds references to full pages, and a copy of everything else. The sequence may change or go
// while the snapshot lives.
//
// Constructor and destructor belong to the engine's thread. Read may run on another thread beside
// them and beside steps, but on one thread at a time.
class CacheSnapshot {
 public:
  // Throws BackendError as ls_backend.snapshot_begin says. `pool` and its store must outlive the
  // snapshot.
  CacheSnapshot(SequenceCache& cache, uint64_t from, uint64_t fingerprint,
                SnapshotMemoryPool& pool);
  ~CacheSnapshot();
  CacheSnapshot(const CacheSnapshot&) = delete;
  CacheSnapshot& operator=(const CacheSnapshot&) = delete;

  // As ls_backend.snapshot_begin fills it.
  ls_snapshot_info info() const;

  // The next bytes of a segment, as ls_backend.snapshot_read. Throws BackendError.
  size_t Read(SegmentKind kind, std::span<std::byte> out);

 private:
  bool has_span() const { return span_.begin < span_.end; }
  void Copy(const SequenceCache& cache);

  SnapshotMemoryPool& pool_;
  SegmentHeader span_;
  SegmentHeader fixed_;
  std::unique_ptr<SnapshotMemory> memory_;
  std::vector<int32_t> pages_;  // of the span; this snapshot is one of their holders
  std::unique_ptr<SegmentReader> span_reader_;
  std::unique_ptr<SegmentReader> fixed_reader_;
  bool is_copied_ = false;  // the copy of the fixed block is known to have arrived
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SEGMENTS_CACHE_SNAPSHOT_H_
