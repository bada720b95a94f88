// Takes references and copies, and makes the readers of the two segments.
#include "backends/caches/segments/cache_snapshot.h"

#include <string>
#include <utility>

#include "backends/errors/device_failure.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

// Checks the sequence and `from`, and returns `from`.
int64_t CheckedBegin(const SequenceCache& cache, uint64_t from) {
  if (cache.failed()) {
    throw BackendError(LS_FAILED_PRECONDITION,
                       "snapshot: the sequence has failed; truncate it first");
  }
  const auto position = static_cast<uint64_t>(cache.position());
  const bool has_pages = cache.store().layout.has_pages();
  if (from <= position && (!has_pages || from % kPageTokens == 0))
    return static_cast<int64_t>(from);
  throw BackendError(LS_INVALID_ARGUMENT,
                     "from: expected " +
                         (has_pages ? "a multiple of " + std::to_string(kPageTokens) : "a number") +
                         " that is at most the position, " + std::to_string(position) + ", found " +
                         std::to_string(from));
}

SegmentHeader SpanHeader(const SequenceCache& cache, int64_t from, uint64_t fingerprint) {
  const CacheLayout& layout = cache.store().layout;
  const int64_t end = layout.has_pages() ? cache.position() / kPageTokens * kPageTokens : from;
  return MakeSegmentHeader(layout, fingerprint, SegmentKind::kSpan, from, end);
}

}  // namespace

CacheSnapshot::CacheSnapshot(SequenceCache& cache, uint64_t from, uint64_t fingerprint,
                             SnapshotMemoryPool& pool)
    : pool_(pool),
      span_(SpanHeader(cache, CheckedBegin(cache, from), fingerprint)),
      fixed_(MakeSegmentHeader(pool.store().layout, fingerprint, SegmentKind::kFixed, 0,
                               cache.position())),
      memory_(pool.Take()) {
  const CacheLayout& layout = pool.store().layout;
  const bool on_host = pool.store().device.host_memory();
  fixed_reader_ = std::make_unique<SegmentReader>(
      layout, fixed_,
      [this, &layout](SegmentBlock block, std::vector<ByteRun>* runs) {
        GetFixedRuns(layout, memory_->copy(), static_cast<int64_t>(fixed_.end), block, runs);
      },
      nullptr);
  span_reader_ = std::make_unique<SegmentReader>(
      layout, span_,
      [this, &layout](SegmentBlock block, std::vector<ByteRun>* runs) {
        GetSpanRuns(layout, pool_.store().pages, pages_, pages_.size(), block, runs);
      },
      on_host ? nullptr : memory_.get());
  if (has_span()) {
    pages_ = cache.SharePages(static_cast<int64_t>(span_.begin) / kPageTokens,
                              static_cast<int64_t>(span_.end) / kPageTokens);
  }
  Copy(cache);
  memory_->queue().FollowDevice();
}

CacheSnapshot::~CacheSnapshot() {
  pool_.Give(std::move(memory_));
  for (const int32_t page : pages_) pool_.store().pages.Release(page);
  pool_.store().ReturnIdle();
}

void CacheSnapshot::Copy(const SequenceCache& cache) {
  CacheStore& store = pool_.store();
  const CacheLayout& layout = store.layout;
  const FixedPlaces& copy = memory_->copy();
  if (layout.rollback_end > 0) {
    store.device.Download(copy.slot, store.slots.data(cache.slot()),
                          static_cast<size_t>(layout.rollback_end));
  }
  if (!layout.has_pages() || cache.position() % kPageTokens == 0) return;
  const int32_t page = cache.page_table().back();
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    if (!layout.layers[i].paged) continue;
    const PagedLayout& paged = *layout.layers[i].paged;
    store.device.Download(copy.last_page[i].keys, store.pages.keys(i, page),
                          static_cast<size_t>(paged.key_bytes(layout.page_type)));
    store.device.Download(copy.last_page[i].values, store.pages.values(i, page),
                          static_cast<size_t>(paged.value_bytes(layout.page_type)));
  }
}

ls_snapshot_info CacheSnapshot::info() const {
  const CacheLayout& layout = pool_.store().layout;
  ls_snapshot_info info{};
  info.span_begin = span_.begin;
  info.span_end = span_.end;
  info.span_bytes = has_span() ? SegmentBytes(layout, span_) : 0;
  info.fixed_bytes = SegmentBytes(layout, fixed_);
  info.position = fixed_.end;
  return info;
}

size_t CacheSnapshot::Read(SegmentKind kind, std::span<std::byte> out) {
  if (kind == SegmentKind::kSpan) return has_span() ? span_reader_->Read(out) : 0;
  if (!is_copied_) {
    RequireDone(memory_->queue().Wait(), "snapshot");
    is_copied_ = true;
  }
  return fixed_reader_->Read(out);
}

}  // namespace longstream
