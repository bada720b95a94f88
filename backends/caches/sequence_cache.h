// What one sequence remembers: its pages, its slot, its rollback point and its reservation.
#ifndef LONGSTREAM_BACKENDS_CACHES_SEQUENCE_CACHE_H_
#define LONGSTREAM_BACKENDS_CACHES_SEQUENCE_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/caches/cache_store.h"

namespace longstream {

// Bytes that a sequence holds; a shared page counts in each holder.
struct CacheBytes {
  uint64_t pages = 0;
  uint64_t rings = 0;
  uint64_t states = 0;
  uint64_t rollback = 0;
};

// Bookkeeping alone: the ops write the memory. Not thread-safe, like the store.
//
// How far back a rollback is free
//   pages       any position.
//   rings       they have kPrefillGrid slots more than their window, so what a position at most
//               kPrefillGrid tokens behind the furthest one written sees is still there.
//   near rings  likewise; further back they are rebuilt from the pages, by the decoder
//               (near_rings_stale).
//   states      positions between the same two grid lines.
//   position 0  always: there memory is empty.
// Everything else goes back to the rollback point, whose rings and states have been copied.
//
// What is paid for. `promised` pages are set aside until a step takes them:
//   pages of the positions up to the reservation's end that are not held yet, and
//   one for each shared page that a step may come to write: those from the rollback point's page on
//   (the current position's where there is no rollback point), because a rollback may lead there.
// A fork makes more pages shared, so it pays for the source's as well.
class SequenceCache {
 public:
  // An empty sequence. Throws BackendError(LS_RESOURCE_EXHAUSTED) where its slot does not fit.
  // `store` must outlive it.
  explicit SequenceCache(CacheStore& store);
  ~SequenceCache();

  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  // The same history, pages shared, slot copied; no rollback point and no reservation.
  // Throws BackendError: LS_RESOURCE_EXHAUSTED, or LS_FAILED_PRECONDITION where this one is failed.
  std::unique_ptr<SequenceCache> Fork();

  // As ls_backend.sequence_reserve. Throws BackendError(LS_RESOURCE_EXHAUSTED); then the promise
  // before it stands.
  void Reserve(int64_t tokens);
  bool has_reservation() const { return reserved_end_ > 0; }
  // Tokens that Append may still be given.
  int64_t reserved_tokens() const { return has_reservation() ? reserved_end_ - position_ : 0; }

  // Marks the current position for Truncate. Throws BackendError(LS_FAILED_PRECONDITION) without a
  // reservation or where the sequence is failed.
  void MarkRollbackPoint();

  // Goes back to `position` where that is free, else to the rollback point, and returns the
  // position reached, from which the sequence is sound again. A failed sequence without a rollback
  // point may go back as far as 0. Throws BackendError(LS_INVALID_ARGUMENT) for a position that
  // cannot be reached.
  int64_t Truncate(int64_t position);

  // Room for the next `tokens` tokens, which the ops then fill: the position moves behind them.
  // REQUIRES: sound, and tokens <= reserved_tokens(). Never fails and allocates nothing.
  void Append(int64_t tokens);
  // Takes back what was appended at `position` and behind it because its step failed: the position
  // is again what it was, but rings and states may have been written. The sequence is failed until
  // Truncate.
  void Abandon(int64_t position);
  bool failed() const { return failed_; }

  // For an import: pages for `tokens` tokens, of which window, state and pages are then filled.
  // REQUIRES: empty. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void Occupy(int64_t tokens);

  // The near rings miss positions that the next step reads; they are to be rebuilt for the
  // positions [max(0, position - slots), position).
  bool near_rings_stale() const { return near_rings_stale_; }
  void NearRingsRebuilt();

  int64_t position() const { return position_; }
  // [PagesFor(position)], or empty where no layer is paged.
  std::span<const int32_t> page_table() const { return pages_; }
  int32_t slot() const { return slot_; }
  CacheBytes bytes() const;
  CacheStore& store() const { return store_; }

 private:
  // How far rings and states have been written, which says what they still hold.
  struct Written {
    int64_t rings = 0;      // the furthest position of window rings, not included
    int64_t near = 0;       // likewise of near rings
    int64_t grid_line = 0;  // the last grid line that the states have crossed
  };
  struct Saved {
    int32_t copy = 0;  // in the slot store
    Written written;
  };

  int64_t NumPages(int64_t tokens) const;
  // The first position that a step, perhaps after a rollback to the rollback point, may write.
  int64_t FirstWritable() const;
  // Held pages with other holders, from the one that contains `position` on.
  int64_t CountShared(int64_t position) const;
  bool IsFree(int64_t position) const;
  // Where a rollback that asks for `position` ends. Throws where it cannot be reached.
  int64_t RollbackTarget(int64_t position) const;
  // Pays for the shared pages that going behind the rollback point makes writable.
  void ExtendPromise(int64_t position);
  void DropPages(int64_t position);
  void ReleaseReservation();

  CacheStore& store_;
  int64_t position_ = 0;
  bool failed_ = false;
  std::vector<int32_t> pages_;  // [NumPages(position)]
  const int32_t slot_;
  Written written_;
  bool near_rings_stale_ = false;

  int64_t reserved_end_ = 0;    // position; 0: no reservation
  int64_t promised_ = 0;        // pages
  std::optional<Saved> saved_;  // room for the rollback point's copy, where one is needed
  std::optional<int64_t> rollback_point_;  // position
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SEQUENCE_CACHE_H_
