// All cache memory of one model: layout, account, pages and slots.
#ifndef LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_
#define LONGSTREAM_BACKENDS_CACHES_CACHE_STORE_H_

#include <cstdint>

#include "backends/caches/budget.h"
#include "backends/caches/cache_layout.h"
#include "backends/caches/page_store.h"
#include "backends/caches/slot_store.h"
#include "kernels/core/device.h"

namespace longstream {

// The most of a device's memory that caches may take: the machine's or the control group's on a
// host; elsewhere what is free, but for what the device needs itself and for the store's spare page
// and slot. So whatever else a model needs is to be allocated before its caches.
uint64_t MostCacheBytes(const CacheLayout& layout, Device& device);

// What a store with fixed pools must have for one sequence of that many tokens.
uint64_t PoolBytesFor(const CacheLayout& layout, int64_t tokens);

// How a budget is divided between pages and slots.
//
// On a host each may take all of it: address space is mapped for the whole budget, and memory is
// used as sequences touch it. Elsewhere the pools are there from the beginning, so they share it:
// of a model with both, slots with their rollback copies get half.
struct PoolSizes {
  uint64_t page_bytes = 0;
  uint64_t num_slots = 0;
};
PoolSizes DivideBudget(const CacheLayout& layout, uint64_t budget_bytes, bool host_memory);

// Used by one thread at a time; reading `budget` is always allowed.
struct CacheStore {
  // budget_bytes 0: MostCacheBytes, which is the limit otherwise too. Throws
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
