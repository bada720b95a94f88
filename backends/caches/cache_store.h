// All cache memory of one model: layout, budget, pages and slots.
#ifndef LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_
#define LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_

#include <cstdint>

#include "backends/caches/budget.h"
#include "backends/caches/cache_layout.h"
#include "backends/caches/idle_memory.h"
#include "backends/caches/page_store.h"
#include "backends/caches/slot_store.h"
#include "kernels/core/device.h"

namespace longstream {

// The most memory of a device that caches may take. For the host it is the memory of the machine or
// of its control group. For any other device it is the free memory, minus the device's own needs
// and the store's spare page and slot. So a model must allocate everything else before its caches.
uint64_t MostCacheBytes(const CacheLayout& layout, Device& device);

// The bytes that a store with fixed pools needs for one sequence of `tokens` tokens.
uint64_t PoolBytesFor(const CacheLayout& layout, int64_t tokens);

// How DivideBudget divides a budget between pages and slots.
//
// On a host, pages and slots may each take the whole budget: address space is mapped for it, and
// memory is used as sequences touch it. On other devices the pools are allocated at the start, so
// they share the budget. If a model has both pages and slots, the slots with their rollback copies
// get half of the budget.
struct PoolSizes {
  uint64_t page_bytes = 0;
  uint64_t num_slots = 0;
};
PoolSizes DivideBudget(const CacheLayout& layout, uint64_t budget_bytes, bool host_memory);

// One thread at a time may use it. Any thread may read `budget`.
struct CacheStore {
  // If budget_bytes is 0, the budget is MostCacheBytes, which also limits larger budgets. Throws
  // BackendError(LS_RESOURCE_EXHAUSTED). `cache_device` must outlive the store.
  CacheStore(CacheLayout cache_layout, uint64_t budget_bytes, Device& cache_device = HostMemory());

  CacheStore(const CacheStore&) = delete;
  CacheStore& operator=(const CacheStore&) = delete;

  // Changes the budget. It cannot exceed the limit with which the store was made, for which the
  // pools have room. If sequences have reserved more than the new limit, they keep it, and nothing
  // more can be reserved until enough is given back. Calls ReturnIdle.
  void SetBudget(uint64_t bytes);

  // Gives memory of free pages and slots back to the system, if there is much of it
  // (IdleBytesToReturn). Call it after each change of what sequences hold, and some time later.
  void ReturnIdle();

  Device& device;
  const CacheLayout layout;
  const uint64_t most_bytes;  // the largest budget
  Budget budget;
  PageStore pages;
  SlotStore slots;
  // For ReturnIdle. A test may set it.
  std::chrono::steady_clock::time_point (*now)() = std::chrono::steady_clock::now;

 private:
  RecentPeak recent_peak_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_
