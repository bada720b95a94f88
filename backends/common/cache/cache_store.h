// All cache memory of one model: layout, account, pages and slots.
#ifndef LONGSTREAM_BACKENDS_COMMON_CACHE_CACHE_STORE_H_
#define LONGSTREAM_BACKENDS_COMMON_CACHE_CACHE_STORE_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/common/cache/budget.h"
#include "backends/common/cache/cache_layout.h"
#include "backends/common/cache/mapped_memory.h"
#include "backends/common/cache/page_store.h"
#include "backends/common/cache/physical_memory.h"
#include "backends/common/cache/slot_store.h"

namespace longstream {

// Address space is mapped for the whole budget, which is at most PhysicalMemory(); memory is used
// as sequences touch it. Used by one thread at a time; reading `budget` is always allowed.
struct CacheStore {
  // budget_bytes 0: PhysicalMemory(). Throws BackendError(LS_RESOURCE_EXHAUSTED).
  CacheStore(CacheLayout cache_layout, uint64_t budget_bytes)
      : layout(std::move(cache_layout)),
        budget(budget_bytes == 0 ? PhysicalMemory()
                                 : std::min<uint64_t>(budget_bytes, PhysicalMemory())),
        pages(layout, budget.limit(), budget),
        slots(layout, budget.limit(), budget) {}

  CacheStore(const CacheStore&) = delete;
  CacheStore& operator=(const CacheStore&) = delete;

  const CacheLayout layout;
  Budget budget;
  PageStore pages;
  SlotStore slots;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_CACHE_CACHE_STORE_H_
