// The fixed-size memory of sequences: each has one slot with its rings and recurrent memory.
#ifndef LONGSTREAM_BACKENDS_CACHES_SLOT_STORE_H_
#define LONGSTREAM_BACKENDS_CACHES_SLOT_STORE_H_

#include <cstddef>
#include <cstdint>

#include "backends/caches/budget.h"
#include "backends/caches/cache_layout.h"
#include "backends/caches/device_memory.h"
#include "backends/caches/id_pool.h"
#include "kernels/core/batch_layout.h"

namespace longstream {

// Live slots and rollback copies (copies of a part of a slot) are stored separately, so a rollback
// point at position 0 copies nothing and costs no memory. Both kinds take the lowest free piece
// first, and a free piece keeps its memory until ReturnIdle. Under AddressSanitizer, free pieces
// are poisoned. Not thread-safe.
class SlotStore {
 public:
  // Allocates `capacity` live slots, as many rollback copies, and the spare slot. The arguments
  // must outlive the store.
  SlotStore(const CacheLayout& layout, uint64_t capacity, Budget& budget, Device& device);

  // Takes a live slot. No byte of it is of another sequence: all are zero, unless `contents` says
  // that the caller will overwrite all of them (CopyAll). Throws
  // BackendError(LS_RESOURCE_EXHAUSTED).
  enum class Contents { kZero, kUndefined };
  int32_t TakeLive(Contents contents = Contents::kZero);
  void GiveLive(int32_t slot);

  // A slot that belongs to no sequence, for the padding rows of a step. These rows are at position
  // 0, so the slot's states stay zero.
  int32_t spare() const { return layout_.slot_stride == 0 ? 0 : static_cast<int32_t>(capacity_); }

  // Takes room for a rollback copy, with undefined contents. Allocates nothing. REQUIRES:
  // budget.Require(layout.rollback_bytes) has passed, and there are fewer copies than live slots.
  int32_t TakeRollbackCopy();
  void GiveRollbackCopy(int32_t copy);

  // Memory of free slots and copies.
  uint64_t idle_bytes() const { return live_.idle_bytes() + rollback_copies_.idle_bytes(); }
  // Gives about `bytes` of the idle memory back to the system.
  void ReturnIdle(uint64_t bytes);

  // Makes the slot empty, as at position 0, by zeroing its states.
  void Clear(int32_t slot);
  // Copies the whole of a live slot to another live slot.
  void CopyAll(int32_t from, int32_t to);
  // Copy the part of a slot that a rollback point needs, to a rollback copy and back.
  void Save(int32_t slot, int32_t copy);
  void Restore(int32_t copy, int32_t slot);

  // One layer's caches of all slots, in the form that ops read.
  RingCache ring(size_t layer) const;
  RingCache near_ring(size_t layer) const;
  RecurrentCache recurrent(size_t layer) const;

  std::byte* data(int32_t slot) const { return live_.data(slot); }

 private:
  // An array of pieces of equal size, which are taken and given back by number.
  struct Pieces {
    std::byte* data(int32_t id) const { return memory.data() + Offset(id); }
    size_t Offset(int32_t id) const { return static_cast<size_t>(id) * stride; }
    IdPool::Taken Take();
    void Give(int32_t id);
    uint64_t idle_bytes() const { return ids.num_idle() * stride; }
    // Returns how many bytes were given back.
    uint64_t ReturnIdle(uint64_t bytes);

    size_t stride = 0;
    DeviceMemory memory;
    IdPool ids;
  };

  RingCache Ring(const RingLayout& ring, bool has_values) const;

  const CacheLayout& layout_;
  Budget& budget_;
  Device& device_;
  const uint64_t capacity_;
  Pieces live_;
  Pieces rollback_copies_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SLOT_STORE_H_
