// The fixed-size memory of sequences: rings and recurrent memory, one slot each.
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

// Live slots and rollback copies, the copies of a part of them, lie apart: a rollback point taken
// at position 0 copies nothing and so costs no memory. Both are handed out lowest first and their
// memory is never given back. What is free is poisoned under AddressSanitizer. Not thread-safe.
class SlotStore {
 public:
  // Memory for `capacity` live slots, as many rollback copies, and the spare slot. What is referred
  // to must outlive the store.
  SlotStore(const CacheLayout& layout, uint64_t capacity, Budget& budget, Device& device);

  // A slot with empty memory: states zero, rings without meaning.
  // Throws BackendError(LS_RESOURCE_EXHAUSTED).
  int32_t TakeLive();
  void GiveLive(int32_t slot);

  // A slot that belongs to nobody, for rows that pad a step: they begin at position 0, so that its
  // states stay zero.
  int32_t spare() const { return layout_.slot_stride == 0 ? 0 : static_cast<int32_t>(capacity_); }

  // Room for a copy, without meaning. Allocates nothing.
  // REQUIRES: budget.Require(layout.rollback_bytes) passed; no more copies than live slots.
  int32_t TakeRollbackCopy();
  void GiveRollbackCopy(int32_t copy);

  // The memory of position 0: zeroes the states.
  void Clear(int32_t slot);
  // A live slot into a live one.
  void CopyAll(int32_t from, int32_t to);
  // What a rollback point covers.
  void Save(int32_t slot, int32_t copy);
  void Restore(int32_t copy, int32_t slot);

  // One layer's caches as ops see them, for all slots.
  RingCache ring(size_t layer) const;
  RingCache near_ring(size_t layer) const;
  RecurrentCache recurrent(size_t layer) const;

  std::byte* data(int32_t slot) const { return live_.data(slot); }

 private:
  // Pieces of equal size, by number.
  struct Pieces {
    std::byte* data(int32_t id) const { return memory.data() + Offset(id); }
    size_t Offset(int32_t id) const { return static_cast<size_t>(id) * stride; }
    int32_t Take();
    void Give(int32_t id);

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
