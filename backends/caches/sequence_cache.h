// The memory of one sequence: pages, slot, rollback point and reservation.
#ifndef LONGSTREAM_BACKENDS_CACHES_SEQUENCE_CACHE_H_
#define LONGSTREAM_BACKENDS_CACHES_SEQUENCE_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/caches/cache_store.h"

namespace longstream {

// Bytes that a sequence holds. A shared page counts in each of its holders.
struct CacheBytes {
  uint64_t pages = 0;
  uint64_t rings = 0;
  uint64_t states = 0;
  uint64_t rollback = 0;
};

// This class only keeps the books: the ops write the memory itself. Like the store, it is not
// thread-safe.
//
// These rollbacks need no rollback point:
//   pages       to any position.
//   rings       to a position at most kPrefillGrid tokens behind the furthest written one. A ring
//               has kPrefillGrid slots more than its window, so it still holds the whole window.
//   near rings  as far back as rings. Further back too, because the decoder rebuilds near rings
//               from the pages (near_rings_stale).
//   states      to a position between the same two grid lines as the furthest one.
//   position 0  always, because memory is empty there.
// Any other rollback goes to the rollback point, which has a copy of rings and states.
//
// Promised pages. `promised` pages are set aside until a step takes them:
//   pages of the positions up to the reservation's end that are not held yet, and
//   one for each shared page that a step may write: pages from the rollback point's page on (from
//   the current position's page if there is no rollback point), because a rollback may go there.
// A fork makes more pages shared, so it also promises pages to the source.
class SequenceCache {
 public:
  // An empty sequence. `contents`: kUndefined if the caller will overwrite the whole slot. Throws
  // BackendError(LS_RESOURCE_EXHAUSTED) if the store has no room for its slot. `store` must outlive
  // the sequence.
  explicit SequenceCache(CacheStore& store,
                         SlotStore::Contents contents = SlotStore::Contents::kZero);
  ~SequenceCache();

  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  // A sequence with the same history: it shares the pages and copies the slot. It has no rollback
  // point and no reservation. Throws BackendError: LS_RESOURCE_EXHAUSTED, or LS_FAILED_PRECONDITION
  // if this sequence is failed.
  std::unique_ptr<SequenceCache> Fork();

  // Reserves as ls_backend.sequence_reserve does. If it throws BackendError(LS_RESOURCE_EXHAUSTED),
  // the previous promise stands.
  void Reserve(int64_t tokens);
  bool has_reservation() const { return reserved_end_ > 0; }
  // The number of tokens that Append may still add.
  int64_t reserved_tokens() const { return has_reservation() ? reserved_end_ - position_ : 0; }

  // Marks the current position for Truncate. Throws BackendError(LS_FAILED_PRECONDITION) if there
  // is no reservation or the sequence is failed.
  void MarkRollbackPoint();

  // Goes back to `position` if that needs no rollback point, else to the rollback point. Returns
  // the position reached; the sequence is sound again. A failed sequence without a rollback point
  // may go back as far as 0. Throws BackendError(LS_INVALID_ARGUMENT) for a position that cannot be
  // reached.
  int64_t Truncate(int64_t position);

  // Makes room for the next `tokens` tokens, which the ops then write, and advances the position.
  // Never fails and allocates nothing. REQUIRES: sound, and tokens <= reserved_tokens().
  void Append(int64_t tokens);
  // Undoes an Append whose step has failed, and which began at `position`: goes back to `position`.
  // The failed step may have written rings and states, so the sequence is failed until Truncate.
  void Abandon(int64_t position);
  bool failed() const { return failed_; }

  // Adds a holder to the full pages [first, last) of the page table and returns their ids. The
  // caller must Release each of them. If a reservation stands, promises pages in place of those
  // that a rollback may write. Throws BackendError(LS_RESOURCE_EXHAUSTED). REQUIRES: last * the
  // tokens of a page <= position.
  std::vector<int32_t> SharePages(int64_t first, int64_t last);

  // Takes pages for the `tokens` tokens of an import; the caller then fills windows, states and
  // pages. REQUIRES: the sequence is empty. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void Occupy(int64_t tokens);

  // Whether the near rings miss positions that the next step reads. The caller must then rebuild
  // them for positions [max(0, position - slots), position) and call NearRingsRebuilt.
  bool near_rings_stale() const { return near_rings_stale_; }
  void NearRingsRebuilt();

  int64_t position() const { return position_; }
  // The ids of the pages, [PagesFor(position)]. Empty if no layer is paged.
  std::span<const int32_t> page_table() const { return pages_; }
  int32_t slot() const { return slot_; }
  CacheBytes bytes() const;
  // Bytes of the pages that other sequences hold too. Looks at every page.
  uint64_t SharedBytes() const;
  CacheStore& store() const { return store_; }

 private:
  // How far rings and states have been written, which decides which positions they still hold.
  struct Written {
    int64_t rings = 0;      // the end of the positions written in window rings
    int64_t near = 0;       // the end of the positions written in near rings
    int64_t grid_line = 0;  // the last grid line that the states have crossed
  };
  struct Saved {
    int32_t copy = 0;  // the copy's number in the slot store
    Written written;
  };

  int64_t NumPages(int64_t tokens) const;
  // The first position that a step may write, now or after a rollback to the rollback point.
  int64_t FirstWritable() const;
  // Promises the copies that become necessary when other holders get the pages [first, last): one
  // for each page that a step may write and that is not shared yet. Does nothing without a
  // reservation.
  void PromiseCopies(int64_t first, int64_t last);
  // The number of held pages with other holders, counted from the page of `position` on.
  int64_t CountShared(int64_t position) const;
  bool IsFree(int64_t position) const;
  // The position that a rollback to `position` reaches. Throws if there is none.
  int64_t RollbackTarget(int64_t position) const;
  // Promises the shared pages that become writable when the sequence goes back to `position`,
  // before its rollback point.
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

  int64_t reserved_end_ = 0;               // a position; 0: no reservation
  int64_t promised_ = 0;                   // in pages
  std::optional<Saved> saved_;             // room for the rollback point's copy, if it needs one
  std::optional<int64_t> rollback_point_;  // a position
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SEQUENCE_CACHE_H_
