// Allocates slots of rings and recurrent memory.
#include "backends/caches/slot_store.h"

#include <string>

#include "backends/caches/idle_memory.h"
#include "backends/errors/error.h"

namespace longstream {

SlotStore::SlotStore(const CacheLayout& layout, uint64_t capacity, Budget& budget, Device& device)
    : layout_(layout), budget_(budget), device_(device), capacity_(capacity) {
  if (layout.slot_stride == 0) return;
  live_.stride = static_cast<size_t>(layout.slot_stride);
  live_.memory = DeviceMemory(device, (capacity + 1) * live_.stride, "rings and states");
  live_.memory.SetPieceBytes(live_.stride);
  rollback_copies_.stride = static_cast<size_t>(layout.rollback_stride());
  rollback_copies_.memory =
      DeviceMemory(device, capacity * rollback_copies_.stride, "rollback copies");
  rollback_copies_.memory.SetPieceBytes(rollback_copies_.stride);
}

IdPool::Taken SlotStore::Pieces::Take() {
  ids.Prepare(ids.num_taken() + 1);
  const IdPool::Taken taken = ids.Take();
  memory.Unpoison(Offset(taken.id), stride);
  return taken;
}

void SlotStore::Pieces::Give(int32_t id) {
  memory.Poison(Offset(id), stride);
  ids.Give(id);
}

uint64_t SlotStore::Pieces::ReturnIdle(uint64_t bytes) {
  if (stride == 0) return 0;
  const auto give_back = [this](size_t first, size_t last) {
    ReturnPieces(memory, stride, ids, first, last);
  };
  return ids.ReturnIdle((bytes + stride - 1) / stride, give_back) * stride;
}

void SlotStore::ReturnIdle(uint64_t bytes) {
  const uint64_t returned = rollback_copies_.ReturnIdle(bytes);
  if (returned < bytes) live_.ReturnIdle(bytes - returned);
}

int32_t SlotStore::TakeLive(Contents contents) {
  budget_.Require(layout_.ring_bytes + layout_.state_bytes, "a sequence's rings and states");
  if (layout_.slot_stride > 0 && live_.ids.num_taken() >= capacity_) {
    throw BackendError(LS_RESOURCE_EXHAUSTED,
                       "rings and states: all of " + std::to_string(capacity_) + " are in use");
  }
  rollback_copies_.ids.Prepare(live_.ids.num_taken() + 1);
  const auto [slot, was_idle] = live_.Take();
  budget_.Add(CacheKind::kRings, layout_.ring_bytes);
  budget_.Add(CacheKind::kStates, layout_.state_bytes);
  // Memory that no sequence has used is zero.
  if (contents == Contents::kZero && was_idle && live_.stride > 0) {
    device_.Zero(data(slot), live_.stride);
  }
  return slot;
}

void SlotStore::GiveLive(int32_t slot) {
  budget_.Remove(CacheKind::kRings, layout_.ring_bytes);
  budget_.Remove(CacheKind::kStates, layout_.state_bytes);
  live_.Give(slot);
}

int32_t SlotStore::TakeRollbackCopy() {
  const int32_t copy = rollback_copies_.Take().id;
  budget_.Add(CacheKind::kRollback, layout_.rollback_bytes);
  return copy;
}

void SlotStore::GiveRollbackCopy(int32_t copy) {
  budget_.Remove(CacheKind::kRollback, layout_.rollback_bytes);
  rollback_copies_.Give(copy);
}

void SlotStore::Clear(int32_t slot) {
  for (const LayerCacheLayout& layer : layout_.layers) {
    if (!layer.recurrent) continue;
    device_.Zero(data(slot) + layer.recurrent->state,
                 static_cast<size_t>(layer.recurrent->state_elements()) * sizeof(float));
  }
}

// These functions change memory that belongs to the store, although only through a pointer.
// NOLINTNEXTLINE(readability-make-member-function-const)
void SlotStore::CopyAll(int32_t from, int32_t to) {
  if (layout_.slot_stride == 0) return;
  device_.Copy(data(to), data(from), static_cast<size_t>(layout_.slot_stride));
}

// NOLINTNEXTLINE(readability-make-member-function-const)
void SlotStore::Save(int32_t slot, int32_t copy) {
  if (layout_.rollback_end == 0) return;
  device_.Copy(rollback_copies_.data(copy), data(slot), static_cast<size_t>(layout_.rollback_end));
}

// NOLINTNEXTLINE(readability-make-member-function-const)
void SlotStore::Restore(int32_t copy, int32_t slot) {
  if (layout_.rollback_end == 0) return;
  device_.Copy(data(slot), rollback_copies_.data(copy), static_cast<size_t>(layout_.rollback_end));
}

RingCache SlotStore::Ring(const RingLayout& ring, bool has_values) const {
  return {live_.memory.data() + ring.keys,
          has_values ? live_.memory.data() + ring.values : nullptr,
          layout_.slot_stride,
          layout_.ring_type,
          ring.slots,
          ring.num_kv_heads,
          ring.head_dim,
          ring.value_slices};
}

RingCache SlotStore::ring(size_t layer) const { return Ring(*layout_.layers[layer].ring, true); }

RingCache SlotStore::near_ring(size_t layer) const {
  return Ring(*layout_.layers[layer].near, false);
}

RecurrentCache SlotStore::recurrent(size_t layer) const {
  const RecurrentLayout& memory = *layout_.layers[layer].recurrent;
  return {live_.memory.data() + memory.state,
          live_.memory.data() + memory.keys,
          live_.memory.data() + memory.values,
          memory.gated ? live_.memory.data() + memory.gates : nullptr,
          layout_.slot_stride,
          kPrefillGrid,
          memory.num_heads,
          memory.num_kv_heads,
          memory.key_dim,
          memory.value_dim};
}

}  // namespace longstream
