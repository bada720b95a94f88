// Computes the sizes of a model's pools.
#include "backends/caches/cache_store.h"

#include <algorithm>
#include <utility>

#include "backends/caches/idle_memory.h"
#include "kernels/core/address_space.h"
#include "kernels/core/physical_memory.h"

namespace longstream {
namespace {

uint64_t Limit(const CacheLayout& layout, uint64_t budget_bytes, Device& device) {
  const uint64_t most = MostCacheBytes(layout, device);
  return budget_bytes == 0 ? most : std::min(budget_bytes, most);
}

uint64_t SlotBytes(const CacheLayout& layout) {
  return static_cast<uint64_t>(layout.slot_stride + layout.rollback_stride());
}

// The largest budget whose reservations fit into the process's address space. On a host each kind
// of memory may become as large as the whole budget, so each kind reserves that much.
uint64_t MostReserved(const CacheLayout& layout) {
  const uint64_t live = layout.ring_bytes + layout.state_bytes;
  const uint64_t of_slots = live == 0 ? 0 : (SlotBytes(layout) + live - 1) / live;
  return ReservableBytes() / (1 + of_slots);
}

}  // namespace

uint64_t MostCacheBytes(const CacheLayout& layout, Device& device) {
  if (device.host_memory()) return std::min(PhysicalMemory(), MostReserved(layout));
  const uint64_t free = device.free_bytes();
  const uint64_t others =
      device.own_bytes() + layout.page_bytes + static_cast<uint64_t>(layout.slot_stride);
  return free - std::min(free, others);
}

uint64_t PoolBytesFor(const CacheLayout& layout, int64_t tokens) {
  const uint64_t pages = SaturatedBytes(static_cast<uint64_t>(PagesFor(tokens)), layout.page_bytes);
  const uint64_t slot = SlotBytes(layout);
  if (slot == 0 || pages == 0) return slot + pages;
  // DivideBudget always makes at least one slot. Pages get the rest of the budget, which must be
  // enough even if slots take half of the budget.
  const uint64_t larger = std::max(slot, pages);
  return larger > UINT64_MAX - pages ? UINT64_MAX : larger + pages;
}

PoolSizes DivideBudget(const CacheLayout& layout, uint64_t budget_bytes, bool host_memory) {
  if (layout.slot_stride == 0) return {budget_bytes, 0};
  // num_slots counts live slots; each of them may have one rollback copy.
  if (host_memory) return {budget_bytes, budget_bytes / (layout.ring_bytes + layout.state_bytes)};
  // The arrays of a slot are aligned, so a slot may have a few more bytes than the rings and states
  // that the budget counts. The smallest budget for a sequence must still give one slot and one
  // page.
  const uint64_t slot_bytes = SlotBytes(layout);
  if (!layout.has_pages()) return {0, std::max<uint64_t>(budget_bytes / slot_bytes, 1)};
  const uint64_t beside_a_page = budget_bytes - std::min(budget_bytes, layout.page_bytes);
  const uint64_t num_slots =
      std::max<uint64_t>(std::min(budget_bytes / 2, beside_a_page) / slot_bytes, 1);
  const uint64_t counted = layout.ring_bytes + layout.state_bytes + layout.rollback_bytes;
  const uint64_t used = num_slots == 1 ? counted : num_slots * slot_bytes;
  return {budget_bytes > used ? budget_bytes - used : 0, num_slots};
}

CacheStore::CacheStore(CacheLayout cache_layout, uint64_t budget_bytes, Device& cache_device)
    : device(cache_device),
      layout(std::move(cache_layout)),
      most_bytes(Limit(layout, budget_bytes, device)),
      budget(most_bytes),
      pages(layout, DivideBudget(layout, budget.limit(), device.host_memory()).page_bytes, budget,
            device),
      slots(layout, DivideBudget(layout, budget.limit(), device.host_memory()).num_slots, budget,
            device) {}

void CacheStore::SetBudget(uint64_t bytes) {
  budget.set_limit(std::min(bytes, most_bytes));
  ReturnIdle();
}

void CacheStore::ReturnIdle() {
  if (!device.host_memory()) return;
  const uint64_t reserved = budget.reserved();
  const uint64_t bytes = IdleBytesToReturn(pages.idle_bytes() + slots.idle_bytes(), reserved,
                                           recent_peak_.Note(reserved, now()), budget.limit());
  if (bytes == 0) return;
  const uint64_t returned = pages.ReturnIdle(bytes);
  if (returned < bytes) slots.ReturnIdle(bytes - returned);
}

}  // namespace longstream
