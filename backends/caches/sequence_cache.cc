// Keeps the pages, the slot, the rollback point and the reservation of one sequence.
#include "backends/caches/sequence_cache.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "backends/errors/error.h"

namespace longstream {
namespace {

int64_t GridLine(int64_t position) { return position / kPrefillGrid * kPrefillGrid; }

// Whether rings of at least `min_slots` slots, in which `written` is the end of the written
// positions, still hold the window of a token at `position`. A ring has kPrefillGrid slots more
// than its window.
bool RingsHold(int64_t position, int64_t written, int64_t min_slots) {
  return position + kPrefillGrid >= written || written <= min_slots;
}

}  // namespace

SequenceCache::SequenceCache(CacheStore& store, SlotStore::Contents contents)
    : store_(store), slot_(store.slots.TakeLive(contents)) {
  store_.ReturnIdle();
}

SequenceCache::~SequenceCache() {
  ReleaseReservation();
  for (const int32_t page : pages_) store_.pages.Release(page);
  store_.slots.GiveLive(slot_);
  store_.ReturnIdle();
}

std::unique_ptr<SequenceCache> SequenceCache::Fork() {
  if (failed_) {
    throw BackendError(LS_FAILED_PRECONDITION, "fork: the sequence has failed; truncate it first");
  }
  auto fork = std::make_unique<SequenceCache>(store_, SlotStore::Contents::kUndefined);
  fork->pages_ = pages_;
  try {
    PromiseCopies(0, static_cast<int64_t>(pages_.size()));
  } catch (...) {
    fork->pages_.clear();  // the fork does not count as a holder of the pages yet
    throw;
  }
  for (const int32_t page : pages_) store_.pages.Share(page);
  store_.slots.CopyAll(slot_, fork->slot_);
  fork->position_ = position_;
  fork->written_ = written_;
  fork->near_rings_stale_ = near_rings_stale_;
  store_.ReturnIdle();
  return fork;
}

void SequenceCache::PromiseCopies(int64_t first, int64_t last) {
  if (!has_reservation()) return;
  int64_t count = 0;
  for (int64_t i = std::max(first, FirstWritable() / kPageTokens); i < last; ++i) {
    count += store_.pages.IsShared(pages_[static_cast<size_t>(i)]) ? 0 : 1;
  }
  store_.pages.Promise(count);
  promised_ += count;
}

std::vector<int32_t> SequenceCache::SharePages(int64_t first, int64_t last) {
  std::vector<int32_t> shared(pages_.begin() + first, pages_.begin() + last);
  PromiseCopies(first, last);
  for (const int32_t page : shared) store_.pages.Share(page);
  return shared;
}

void SequenceCache::Reserve(int64_t tokens) {
  if (tokens == 0) {
    ReleaseReservation();
    return store_.ReturnIdle();
  }
  const CacheLayout& layout = store_.layout;
  const int64_t end = position_ + tokens;
  const int64_t needed =
      NumPages(end) - static_cast<int64_t>(pages_.size()) + CountShared(FirstWritable());
  const bool needs_copy = !saved_ && layout.rollback_end > 0;
  const int64_t more = std::max<int64_t>(needed - promised_, 0);
  store_.budget.Require(
      static_cast<uint64_t>(more) * layout.page_bytes + (needs_copy ? layout.rollback_bytes : 0),
      ("a reservation of " + std::to_string(tokens) + " tokens").c_str());
  pages_.reserve(static_cast<size_t>(NumPages(end)));
  store_.pages.Promise(more);
  promised_ += more;
  if (needs_copy) saved_ = Saved{store_.slots.TakeRollbackCopy(), {}};
  if (promised_ > needed) {
    store_.pages.TakeBackPromise(promised_ - needed);
    promised_ = needed;
  }
  reserved_end_ = end;
  store_.ReturnIdle();
}

void SequenceCache::ReleaseReservation() {
  if (promised_ > 0) store_.pages.TakeBackPromise(promised_);
  if (saved_) store_.slots.GiveRollbackCopy(saved_->copy);
  promised_ = reserved_end_ = 0;
  saved_.reset();
  rollback_point_.reset();
}

void SequenceCache::MarkRollbackPoint() {
  if (failed_ || !has_reservation()) {
    throw BackendError(LS_FAILED_PRECONDITION,
                       failed_ ? "rollback point: the sequence has failed; truncate it first"
                               : "rollback point: no reservation stands");
  }
  // At position 0 memory is empty, so a rollback to it needs no copy.
  if (saved_ && position_ > 0) {
    store_.slots.Save(slot_, saved_->copy);
    saved_->written = written_;
  }
  rollback_point_ = position_;
}

int64_t SequenceCache::Truncate(int64_t position) {
  const CacheLayout& layout = store_.layout;
  const int64_t target = RollbackTarget(position);
  const bool restore = !IsFree(target);
  if (target < FirstWritable()) {
    ExtendPromise(target);
    if (rollback_point_) rollback_point_ = target;
  }
  DropPages(target);
  position_ = target;
  failed_ = false;
  if (target == 0) {
    store_.slots.Clear(slot_);
    written_ = {};
    near_rings_stale_ = false;
    return 0;
  }
  if (restore) {
    store_.slots.Restore(saved_->copy, slot_);
    written_.rings = saved_->written.rings;
    written_.grid_line = saved_->written.grid_line;
  }
  near_rings_stale_ =
      layout.has_near_rings &&
      (near_rings_stale_ || !RingsHold(target, written_.near, layout.min_near_slots));
  return target;
}

int64_t SequenceCache::RollbackTarget(int64_t position) const {
  const bool pages_only = store_.layout.slot_stride == 0;
  const int64_t lowest = rollback_point_ && !pages_only ? *rollback_point_ : 0;
  if (position >= lowest && position <= position_) {
    if (IsFree(position)) return position;
    if (rollback_point_) return *rollback_point_;
    if (failed_ && position == position_) return 0;
  }
  const std::string found = "position: found " + std::to_string(position) + ", expected ";
  if (position > position_ || rollback_point_) {
    throw BackendError(LS_INVALID_ARGUMENT,
                       found + std::to_string(lowest) + " ... " + std::to_string(position_));
  }
  throw BackendError(
      LS_INVALID_ARGUMENT,
      found + "one that rings and states still hold, for there is no rollback point");
}

bool SequenceCache::IsFree(int64_t position) const {
  const CacheLayout& layout = store_.layout;
  if (position == 0) return true;
  if (layout.has_rings && !RingsHold(position, written_.rings, layout.min_ring_slots)) return false;
  return !layout.has_states || GridLine(position) == written_.grid_line;
}

int64_t SequenceCache::FirstWritable() const {
  return rollback_point_ ? std::min(*rollback_point_, position_) : position_;
}

int64_t SequenceCache::CountShared(int64_t position) const {
  int64_t count = 0;
  for (size_t i = static_cast<size_t>(position / kPageTokens); i < pages_.size(); ++i) {
    count += store_.pages.IsShared(pages_[i]) ? 1 : 0;
  }
  return count;
}

void SequenceCache::ExtendPromise(int64_t position) {
  if (!has_reservation()) return;
  const int64_t more = CountShared(position) - CountShared(FirstWritable());
  // The code is not LS_RESOURCE_EXHAUSTED, which truncate must not return (backends/api/backend.h).
  // A rollback to the rollback point or later never needs more memory, so it never comes here.
  if (!store_.pages.CanPromise(more)) {
    throw BackendError(LS_INVALID_ARGUMENT,
                       "position: found " + std::to_string(position) +
                           ", before the rollback point; " + std::to_string(more) +
                           " pages from there on are shared with a fork" +
                           " and the cache budget has no room for others in their place;" +
                           " give the reservation back first");
  }
  store_.pages.Promise(more);
  promised_ += more;
}

void SequenceCache::DropPages(int64_t position) {
  while (static_cast<int64_t>(pages_.size()) > NumPages(position)) {
    const int32_t page = pages_.back();
    const bool is_shared = store_.pages.IsShared(page);
    pages_.pop_back();
    // The next step may need another page here. If this page was shared, the other page is promised
    // already.
    if (has_reservation() && !is_shared) {
      store_.pages.ReleaseAsPromise(page);
      ++promised_;
    } else {
      store_.pages.Release(page);
    }
  }
}

void SequenceCache::Append(int64_t tokens) {
  assert(!failed_ && tokens <= reserved_tokens());
  if (!pages_.empty() && position_ % kPageTokens != 0 && store_.pages.IsShared(pages_.back())) {
    assert(promised_ > 0);
    --promised_;
    const int32_t copy = store_.pages.Take();
    store_.pages.Copy(pages_.back(), copy);
    store_.pages.Release(pages_.back());
    pages_.back() = copy;
  }
  position_ += tokens;
  const int64_t more = NumPages(position_) - static_cast<int64_t>(pages_.size());
  assert(more <= promised_);
  promised_ -= std::max<int64_t>(more, 0);
  store_.pages.TakeZeroed(more, &pages_);
  written_.rings = std::max(written_.rings, position_);
  written_.near = std::max(written_.near, position_);
  written_.grid_line = std::max(written_.grid_line, GridLine(position_));
}

void SequenceCache::Abandon(int64_t position) {
  assert(position <= position_);
  position_ = position;
  DropPages(position_);
  failed_ = true;
}

void SequenceCache::Occupy(int64_t tokens) {
  assert(position_ == 0 && pages_.empty() && !has_reservation());
  const int64_t pages = NumPages(tokens);
  pages_.reserve(static_cast<size_t>(pages));
  store_.pages.Promise(pages);
  store_.pages.TakeZeroed(pages, &pages_);
  store_.ReturnIdle();
  position_ = tokens;
  // An import restores only the windows, without the kPrefillGrid slots beyond them. That is the
  // state of rings in which kPrefillGrid later tokens have been written.
  written_.rings = tokens + kPrefillGrid;
  written_.grid_line = GridLine(tokens);
  near_rings_stale_ = store_.layout.has_near_rings && tokens > 0;
}

void SequenceCache::NearRingsRebuilt() {
  written_.near = position_;
  near_rings_stale_ = false;
}

CacheBytes SequenceCache::bytes() const {
  const CacheLayout& layout = store_.layout;
  return {pages_.size() * layout.page_bytes, layout.ring_bytes, layout.state_bytes,
          saved_ ? layout.rollback_bytes : 0};
}

uint64_t SequenceCache::SharedBytes() const {
  return static_cast<uint64_t>(CountShared(0)) * store_.layout.page_bytes;
}

int64_t SequenceCache::NumPages(int64_t tokens) const {
  return store_.layout.has_pages() ? PagesFor(tokens) : 0;
}

}  // namespace longstream
