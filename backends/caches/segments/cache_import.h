// A sequence that is read from segments.
#ifndef LONGSTREAM_BACKENDS_CACHES_SEGMENTS_CACHE_IMPORT_H_
#define LONGSTREAM_BACKENDS_CACHES_SEGMENTS_CACHE_IMPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/caches/segments/segment_format.h"
#include "backends/caches/segments/snapshot_memory.h"
#include "backends/caches/sequence_cache.h"
#include "backends/errors/error.h"

namespace longstream {

// The parser trusts no byte: it takes sizes from the layout and the position alone, and compares
// the headers with them.
//
// Constructor, Take and destructor belong to the engine's thread. Write may run on another thread
// beside steps, but on one thread at a time.
class CacheImport {
 public:
  // Takes the memory of a sequence at `position`. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  // `pool` and its store must outlive the import. REQUIRES: position <= context_limit.
  CacheImport(int64_t position, uint64_t fingerprint, int64_t context_limit,
              SnapshotMemoryPool& pool);
  ~CacheImport();
  CacheImport(const CacheImport&) = delete;
  CacheImport& operator=(const CacheImport&) = delete;

  // Reads the next bytes, as ls_backend.import_write. Throws BackendError, then and ever after.
  void Write(std::span<const std::byte> bytes);

  // Throws BackendError(LS_DATA_LOSS) unless all bytes are there.
  void RequireComplete() const;
  // REQUIRES (both functions): complete. The near rings are stale.
  SequenceCache& cache() const { return *cache_; }
  std::unique_ptr<SequenceCache> Take() { return std::move(cache_); }

 private:
  // The part of a segment to which the next bytes belong.
  enum class Expect { kHeader, kBlockHeader, kData, kChecksum, kNothing };

  void Parse(std::span<const std::byte> bytes);
  // Puts bytes into small_, until it has `size` bytes. Returns how many bytes were taken.
  size_t Gather(std::span<const std::byte> bytes, size_t size);
  template <typename Value>
  Value Small() const;
  void BeginSegment();
  void BeginBlock();
  void EndBlock();
  void EndSegment();
  size_t ReadData(std::span<const std::byte> bytes);
  void FlushStage();
  void GetRuns(SegmentBlock block, std::vector<ByteRun>* runs) const;
  [[noreturn]] void ThrowDamaged() const;

  SnapshotMemoryPool& pool_;
  const CacheLayout& layout_;
  const uint64_t fingerprint_;
  const int64_t context_limit_;
  const int64_t position_;
  std::unique_ptr<SequenceCache> cache_;
  std::unique_ptr<SnapshotMemory> device_memory_;  // nullptr: the caches are in host memory
  FixedPlaces places_;

  Expect expect_ = Expect::kHeader;
  std::array<std::byte, sizeof(SegmentHeader)> small_{};  // a header or a checksum so far
  size_t small_size_ = 0;
  SegmentHeader header_;                             // of the current segment
  std::array<std::vector<SegmentBlock>, 2> blocks_;  // of spans, of the fixed block
  const std::vector<SegmentBlock>* segment_ = nullptr;
  size_t block_ = 0;           // index in *segment_
  std::vector<ByteRun> runs_;  // of the current block
  size_t run_ = 0;
  size_t run_at_ = 0;    // bytes of runs_[run_] that are filled or staged
  size_t staged_ = 0;    // bytes in the stage
  uint32_t crc_ = 0;     // of the current block so far
  int64_t covered_ = 0;  // spans have been read for the tokens [0, covered_)
  std::optional<BackendError> failure_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SEGMENTS_CACHE_IMPORT_H_
