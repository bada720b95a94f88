// Slots of rings and recurrent memory.
#include "backends/common/cache/slot_store.h"

#include <algorithm>
#include <cstring>

namespace longstream {
namespace {

// A sequence has one live slot, which costs live_bytes, and at most one checkpoint: twice the
// number of live slots is never exceeded.
size_t MemorySize(const CacheLayout& layout, uint64_t capacity_bytes) {
  const uint64_t live_bytes = layout.ring_bytes + layout.state_bytes;
  if (live_bytes == 0) return 0;
  return 2 * (capacity_bytes / live_bytes) * static_cast<uint64_t>(layout.slot_stride);
}

}  // namespace

SlotStore::SlotStore(const CacheLayout& layout, uint64_t capacity_bytes, Budget& budget)
    : layout_(layout),
      budget_(budget),
      memory_(MemorySize(layout, capacity_bytes), "rings and states") {}

int32_t SlotStore::TakeLive() {
  budget_.Require(layout_.ring_bytes + layout_.state_bytes, "a sequence's rings and states");
  const int32_t slot = Take(static_cast<size_t>(layout_.slot_stride));
  budget_.Add(CacheKind::kRings, layout_.ring_bytes);
  budget_.Add(CacheKind::kStates, layout_.state_bytes);
  Clear(slot);
  return slot;
}

void SlotStore::GiveLive(int32_t slot) {
  budget_.Remove(CacheKind::kRings, layout_.ring_bytes);
  budget_.Remove(CacheKind::kStates, layout_.state_bytes);
  Give(slot);
}

int32_t SlotStore::TakeCheckpoint() {
  const int32_t slot = Take(static_cast<size_t>(layout_.checkpoint_end));
  budget_.Add(CacheKind::kCheckpoints, layout_.checkpoint_bytes);
  return slot;
}

void SlotStore::GiveCheckpoint(int32_t slot) {
  budget_.Remove(CacheKind::kCheckpoints, layout_.checkpoint_bytes);
  Give(slot);
}

int32_t SlotStore::Take(size_t bytes) {
  ids_.Prepare(ids_.num_taken() + 1);
  const int32_t slot = ids_.Take();
  memory_.Unpoison(Offset(slot), bytes);
  return slot;
}

void SlotStore::Give(int32_t slot) {
  memory_.Poison(Offset(slot), static_cast<size_t>(layout_.slot_stride));
  ids_.Give(slot);
}

void SlotStore::Clear(int32_t slot) {
  for (const LayerCacheLayout& layer : layout_.layers) {
    if (!layer.recurrent) continue;
    std::memset(data(slot) + layer.recurrent->state, 0,
                static_cast<size_t>(layer.recurrent->state_elements()) * sizeof(float));
  }
}

// What these two change is reached through a pointer, but it is the store's all the same.
// NOLINTNEXTLINE(readability-make-member-function-const)
void SlotStore::CopyAll(int32_t from, int32_t to) {
  if (layout_.slot_stride == 0) return;
  std::memcpy(data(to), data(from), static_cast<size_t>(layout_.slot_stride));
}

// NOLINTNEXTLINE(readability-make-member-function-const)
void SlotStore::CopyCheckpoint(int32_t from, int32_t to) {
  if (layout_.checkpoint_end == 0) return;
  std::memcpy(data(to), data(from), static_cast<size_t>(layout_.checkpoint_end));
}

RingCache SlotStore::Ring(const RingLayout& ring, bool has_values) const {
  return {memory_.data() + ring.keys,
          has_values ? memory_.data() + ring.values : nullptr,
          layout_.slot_stride,
          layout_.type,
          ring.slots,
          ring.num_kv_heads,
          ring.head_dim};
}

RingCache SlotStore::ring(size_t layer) const { return Ring(*layout_.layers[layer].ring, true); }

RingCache SlotStore::near_ring(size_t layer) const {
  return Ring(*layout_.layers[layer].near, false);
}

RecurrentCache SlotStore::recurrent(size_t layer) const {
  const RecurrentLayout& memory = *layout_.layers[layer].recurrent;
  return {memory_.data() + memory.state,
          memory_.data() + memory.keys,
          memory_.data() + memory.values,
          memory.gated ? memory_.data() + memory.gates : nullptr,
          layout_.slot_stride,
          kPrefillGrid,
          memory.num_heads,
          memory.num_kv_heads,
          memory.key_dim,
          memory.value_dim};
}

}  // namespace longstream
