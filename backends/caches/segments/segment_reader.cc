// Walks over the blocks of a segment.
#include "backends/caches/segments/segment_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/caches/crc32c.h"
#include "backends/errors/device_failure.h"

namespace longstream {

SegmentReader::SegmentReader(const CacheLayout& layout, const SegmentHeader& header,
                             GetRuns get_runs, SnapshotMemory* device_memory)
    : header_(header),
      get_runs_(std::move(get_runs)),
      device_memory_(device_memory),
      blocks_(BlocksOf(layout, header.kind)) {}

size_t SegmentReader::Read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    if (small_at_ < small_end_) {
      const size_t size = std::min(out.size() - done, small_end_ - small_at_);
      std::memcpy(out.data() + done, small_.data() + small_at_, size);
      small_at_ += size;
      done += size;
    } else if (run_ < runs_.size() || !staged_.empty()) {
      done += ReadRuns(out.subspan(done));
    } else if (!Next()) {
      break;
    }
  }
  return done;
}

template <typename Value>
void SegmentReader::SetSmall(const Value& value) {
  static_assert(sizeof(value) <= sizeof(small_));
  std::memcpy(small_.data(), &value, sizeof(value));
  small_at_ = 0;
  small_end_ = sizeof(value);
}

bool SegmentReader::Next() {
  if (!std::exchange(has_begun_, true)) {
    SetSmall(header_);
    return true;
  }
  if (std::exchange(in_block_, false)) {
    SetSmall(crc_);
    return true;
  }
  if (next_block_ == blocks_.size()) return false;
  const SegmentBlock block = blocks_[next_block_];
  get_runs_(block, &runs_);
  run_ = run_at_ = 0;
  const SegmentBlockHeader header{static_cast<uint32_t>(block.layer), block.array,
                                  SizeOfRuns(runs_)};
  crc_ = ExtendCrc32c(header_.crc, &header, sizeof(header));
  SetSmall(header);
  ++next_block_;
  in_block_ = true;
  return true;
}

size_t SegmentReader::ReadRuns(std::span<std::byte> out) {
  const std::span<const std::byte> piece = NextPiece();
  const size_t size = std::min(out.size(), piece.size());
  std::memcpy(out.data(), piece.data(), size);
  crc_ = ExtendCrc32c(crc_, out.data(), size);
  if (device_memory_ != nullptr) {
    staged_ = staged_.subspan(size);
    return size;
  }
  run_at_ += size;
  if (run_at_ == runs_[run_].size) {
    ++run_;
    run_at_ = 0;
  }
  return size;
}

std::span<const std::byte> SegmentReader::NextPiece() {
  if (device_memory_ == nullptr) {
    return {runs_[run_].data + run_at_, runs_[run_].size - run_at_};
  }
  if (staged_.empty()) FillStage();
  return staged_;
}

// Gathers many runs, so that one wait covers many copies.
void SegmentReader::FillStage() {
  const std::span<std::byte> stage = device_memory_->stage();
  size_t used = 0;
  while (used < stage.size() && run_ < runs_.size()) {
    const ByteRun& run = runs_[run_];
    const size_t size = std::min(stage.size() - used, run.size - run_at_);
    device_memory_->queue().Download(stage.data() + used, run.data + run_at_, size);
    used += size;
    run_at_ += size;
    if (run_at_ < run.size) break;
    ++run_;
    run_at_ = 0;
  }
  RequireDone(device_memory_->queue().Wait(), "snapshot");
  staged_ = stage.first(used);
}

}  // namespace longstream
