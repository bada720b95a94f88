// Produces the bytes of a segment in pieces of any size.
#ifndef LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SEGMENT_READER_H_
#define LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SEGMENT_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/caches/segments/segment_format.h"
#include "backends/caches/segments/snapshot_memory.h"

namespace longstream {

// Not thread-safe.
class SegmentReader {
 public:
  // Gives the runs of a block.
  using GetRuns = std::function<void(SegmentBlock block, std::vector<ByteRun>* runs)>;

  // device_memory: memory() with a stage if the runs are in a device's memory, else nullptr. It
  // must outlive the reader.
  SegmentReader(const CacheLayout& layout, const SegmentHeader& header, GetRuns get_runs,
                SnapshotMemory* device_memory);

  // Writes the next bytes to `out` and returns how many: fewer than `out` has only at the end of
  // the segment. Throws BackendError if the device fails.
  size_t Read(std::span<std::byte> out);

 private:
  // Puts the next header or checksum into small_. Returns whether there is one.
  bool Next();
  // Copies bytes of the current block's runs to `out` and returns how many.
  size_t ReadRuns(std::span<std::byte> out);
  // The next bytes of the runs in host memory. Downloads them first if they are in a device's.
  std::span<const std::byte> NextPiece();
  void FillStage();

  template <typename Value>
  void SetSmall(const Value& value);

  const SegmentHeader header_;
  const GetRuns get_runs_;
  SnapshotMemory* const device_memory_;
  const std::vector<SegmentBlock> blocks_;

  std::array<std::byte, sizeof(SegmentHeader)> small_{};  // a header or a checksum to be read
  size_t small_at_ = 0;
  size_t small_end_ = 0;
  size_t next_block_ = 0;
  bool has_begun_ = false;     // the segment's header has been put into small_
  bool in_block_ = false;      // the current block's checksum has not
  std::vector<ByteRun> runs_;  // of the current block
  size_t run_ = 0;
  size_t run_at_ = 0;  // bytes of runs_[run_] that are read or staged
  std::span<const std::byte> staged_;
  uint32_t crc_ = 0;  // of the current block so far
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SEGMENTS_SEGMENT_READER_H_
