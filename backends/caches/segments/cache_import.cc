// Parses segments and writes them to the memory of a sequence.
#include "backends/caches/segments/cache_import.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "backends/caches/crc32c.h"
#include "backends/errors/device_failure.h"

namespace longstream {
namespace {

// The end of the full pages of a sequence.
int64_t SpansEnd(const CacheLayout& layout, int64_t position) {
  return layout.has_pages() ? position / kPageTokens * kPageTokens : 0;
}

FixedPlaces PlacesOf(const SequenceCache& cache) {
  const CacheStore& store = cache.store();
  FixedPlaces places;
  places.slot = store.slots.data(cache.slot());
  places.last_page.resize(store.layout.layers.size());
  if (cache.page_table().empty()) return places;
  const int32_t page = cache.page_table().back();
  for (size_t i = 0; i < store.layout.layers.size(); ++i) {
    if (!store.layout.layers[i].paged) continue;
    places.last_page[i] = {store.pages.keys(i, page), store.pages.values(i, page)};
  }
  return places;
}

}  // namespace

CacheImport::CacheImport(int64_t position, uint64_t fingerprint, int64_t context_limit,
                         SnapshotMemoryPool& pool)
    : pool_(pool),
      layout_(pool.store().layout),
      fingerprint_(fingerprint),
      context_limit_(context_limit),
      position_(position),
      cache_(std::make_unique<SequenceCache>(pool.store())),
      blocks_{BlocksOf(layout_, SegmentKind::kSpan), BlocksOf(layout_, SegmentKind::kFixed)} {
  cache_->Occupy(position);
  places_ = PlacesOf(*cache_);
  if (pool.store().device.host_memory()) return;
  device_memory_ = pool.Take();
  // Work that is already in the device's queue may still use this memory for its last owner.
  device_memory_->queue().FollowDevice();
}

CacheImport::~CacheImport() {
  if (device_memory_ != nullptr) pool_.Give(std::move(device_memory_));
}

void CacheImport::Write(std::span<const std::byte> bytes) {
  if (failure_) throw BackendError(*failure_);
  try {
    Parse(bytes);
  } catch (const std::exception&) {
    failure_ = HandledError();
    throw;
  }
}

void CacheImport::Parse(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t taken = 0;
    switch (expect_) {
      case Expect::kHeader:
        taken = Gather(bytes, sizeof(SegmentHeader));
        if (small_size_ == sizeof(SegmentHeader)) BeginSegment();
        break;
      case Expect::kBlockHeader:
        taken = Gather(bytes, sizeof(SegmentBlockHeader));
        if (small_size_ == sizeof(SegmentBlockHeader)) BeginBlock();
        break;
      case Expect::kData:
        taken = ReadData(bytes);
        break;
      case Expect::kChecksum:
        taken = Gather(bytes, sizeof(uint32_t));
        if (small_size_ == sizeof(uint32_t)) EndBlock();
        break;
      case Expect::kNothing:
        throw BackendError(LS_DATA_LOSS, "import: bytes behind the fixed block of position " +
                                             std::to_string(position_));
    }
    bytes = bytes.subspan(taken);
  }
}

size_t CacheImport::Gather(std::span<const std::byte> bytes, size_t size) {
  const size_t taken = std::min(bytes.size(), size - small_size_);
  std::memcpy(small_.data() + small_size_, bytes.data(), taken);
  small_size_ += taken;
  return taken;
}

template <typename Value>
Value CacheImport::Small() const {
  Value value;
  std::memcpy(&value, small_.data(), sizeof(value));
  return value;
}

void CacheImport::BeginSegment() {
  const auto header = Small<SegmentHeader>();
  CheckSegmentHeader(header, layout_, fingerprint_, context_limit_);
  small_size_ = 0;
  const bool is_span = header.kind == SegmentKind::kSpan;
  if (is_span && header.begin > static_cast<uint64_t>(covered_)) {
    throw BackendError(LS_INVALID_ARGUMENT, "import: " + NameOf(header) +
                                                " leaves a gap: the spans before it end at " +
                                                std::to_string(covered_));
  }
  if (!is_span && header.end != static_cast<uint64_t>(position_)) {
    throw BackendError(LS_INVALID_ARGUMENT, "import: " + NameOf(header) + ", expected position " +
                                                std::to_string(position_));
  }
  header_ = header;
  segment_ = &blocks_[is_span ? 0 : 1];
  block_ = 0;
  expect_ = Expect::kBlockHeader;
  if (segment_->empty()) EndSegment();
}

void CacheImport::GetRuns(SegmentBlock block, std::vector<ByteRun>* runs) const {
  if (header_.kind == SegmentKind::kFixed) {
    return GetFixedRuns(layout_, places_, position_, block, runs);
  }
  // Pages that the position does not need have no place.
  const auto first = static_cast<size_t>(header_.begin / kPageTokens);
  const auto last = static_cast<size_t>(header_.end / kPageTokens);
  const auto full = static_cast<size_t>(SpansEnd(layout_, position_) / kPageTokens);
  const size_t needed = std::clamp(full, first, last) - first;
  const std::span<const int32_t> table = cache_->page_table();
  GetSpanRuns(layout_, pool_.store().pages, table.subspan(std::min(first, table.size()), needed),
              last - first, block, runs);
}

void CacheImport::BeginBlock() {
  const auto found = Small<SegmentBlockHeader>();
  const SegmentBlock block = (*segment_)[block_];
  GetRuns(block, &runs_);
  if (found.layer != block.layer || found.array != block.array || found.size != SizeOfRuns(runs_)) {
    ThrowDamaged();
  }
  small_size_ = 0;
  crc_ = ExtendCrc32c(header_.crc, &found, sizeof(found));
  run_ = run_at_ = 0;
  expect_ = found.size > 0 ? Expect::kData : Expect::kChecksum;
}

size_t CacheImport::ReadData(std::span<const std::byte> bytes) {
  const ByteRun& run = runs_[run_];
  size_t size = std::min(bytes.size(), run.size - run_at_);
  if (run.data != nullptr && device_memory_ != nullptr) {
    const std::span<std::byte> stage = device_memory_->stage();
    if (staged_ == stage.size()) FlushStage();
    size = std::min(size, stage.size() - staged_);
    std::memcpy(stage.data() + staged_, bytes.data(), size);
    device_memory_->queue().Upload(run.data + run_at_, stage.data() + staged_, size);
    staged_ += size;
  } else if (run.data != nullptr) {
    std::memcpy(run.data + run_at_, bytes.data(), size);
  }
  crc_ = ExtendCrc32c(crc_, bytes.data(), size);
  run_at_ += size;
  if (run_at_ == run.size) {
    run_at_ = 0;
    if (++run_ == runs_.size()) expect_ = Expect::kChecksum;
  }
  return size;
}

void CacheImport::FlushStage() {
  RequireDone(device_memory_->queue().Wait(), "import");
  staged_ = 0;
}

void CacheImport::EndBlock() {
  if (Small<uint32_t>() != crc_) ThrowDamaged();
  small_size_ = 0;
  expect_ = Expect::kBlockHeader;
  if (++block_ == segment_->size()) EndSegment();
}

void CacheImport::EndSegment() {
  if (device_memory_ != nullptr) FlushStage();
  if (header_.kind == SegmentKind::kSpan) covered_ = static_cast<int64_t>(header_.end);
  expect_ = header_.kind == SegmentKind::kSpan ? Expect::kHeader : Expect::kNothing;
}

void CacheImport::ThrowDamaged() const {
  throw BackendError(LS_DATA_LOSS, "import: layer " + std::to_string((*segment_)[block_].layer) +
                                       " in " + NameOf(header_) +
                                       " is damaged: its checksum does not match its contents");
}

void CacheImport::RequireComplete() const {
  if (failure_) throw BackendError(*failure_);
  const int64_t end = SpansEnd(layout_, position_);
  const bool is_between = expect_ == Expect::kHeader && small_size_ == 0;
  if (expect_ != Expect::kNothing && !is_between) {
    throw BackendError(LS_DATA_LOSS, "import: the last segment ends early");
  }
  if (covered_ < end) {
    throw BackendError(LS_DATA_LOSS, "import: the spans end at token " + std::to_string(covered_) +
                                         ", expected " + std::to_string(end));
  }
  if (expect_ != Expect::kNothing) {
    throw BackendError(LS_DATA_LOSS, "import: the fixed block of position " +
                                         std::to_string(position_) + " is missing");
  }
}

}  // namespace longstream
