// All cache memory of one model: layout, budget, pages and slots.
#ifndef LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_
#define LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_

#include <cstdint>

#include "backends/caches/budget.h"
#include "backends/caches/cache_layout.h"
#include "backends/caches/page_store.h"
#include "backends/caches/slot_store.h"
#include "kernels/core/device.h"

namespace longstream {

// The most memory of a device that caches may take. On a host: the memory of the machine or of its
// control group. Elsewhere: the free memory, without the device's own needs and the store's spare
// page and slot. So a model must allocate everything else before its caches.
uint64_t MostCacheBytes(const CacheLayout& layout, Device& device);

// The bytes that a store with fixed pools needs for one sequence of `tokens` tokens.
uint64_t PoolBytesFor(const CacheLayout& layout, int64_t tokens);

// How a budget is divided between pages and slots.
//
// On a host, pages and slots may each take all of it: address space is mapped for the whole budget,
// and memory is used as sequences touch it. Elsewhere the pools are allocated at the start, so they
// share the budget. If a model has both, slots with their rollback copies get half.
struct PoolSizes {
  uint64_t page_bytes = 0;
  uint64_t num_slots = 0;
};
PoolSizes DivideBudget(const CacheLayout& layout, uint64_t budget_bytes, bool host_memory);

// Used by one thread at a time; any thread may read `budget`.
struct CacheStore {
  // budget_bytes 0: MostCacheBytes, which also limits larger budgets. Throws
  // BackendError(LS_RESOURCE_EXHAUSTED). `cache_device` must outlive the store.
  CacheStore(CacheLayout cache_layout, uint64_t budget_bytes, Device& cache_device = HostMemory());

  CacheStore(const CacheStore&) = delete;
  CacheStore& operator=(const CacheStore&) = delete;

  Device& device;
  const CacheLayout layout;
  Budget budget;
  PageStore pages;
  SlotStore slots;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_
