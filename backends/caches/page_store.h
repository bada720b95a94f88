// The pages of all paged layers of a model, shared by its sequences with reference counts.
#ifndef LONGSTREAM_BACKENDS_CACHES_PAGE_STORE_H_
#define LONGSTREAM_BACKENDS_CACHES_PAGE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/caches/budget.h"
#include "backends/caches/cache_layout.h"
#include "backends/caches/device_memory.h"
#include "backends/caches/id_pool.h"
#include "kernels/core/batch_layout.h"

namespace longstream {

// Page ids are handed out lowest first and their memory is never given back, so that a process that
// has warmed up neither grows nor faults. A free page is poisoned under AddressSanitizer.
//
// Pages are paid for before they are taken: Promise may fail, Take may not. Not thread-safe.
class PageStore {
 public:
  // Memory for `capacity_bytes` of pages and for the spare one. What is referred to must outlive
  // the store.
  PageStore(const CacheLayout& layout, uint64_t capacity_bytes, Budget& budget, Device& device);

  // Sets memory for that many pages aside. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void Promise(int64_t pages);
  // Whether Promise would not throw.
  bool CanPromise(int64_t pages) const;
  void TakeBackPromise(int64_t pages);

  // A page with one holder, out of a promise. What it contains is of no meaning.
  // REQUIRES: a promise of at least one page is left. Allocates nothing.
  int32_t Take();
  // One more holder.
  void Share(int32_t page) { ++holders_[static_cast<size_t>(page)]; }
  // One holder less; the last one frees the page.
  void Release(int32_t page);
  bool IsShared(int32_t page) const { return holders_[static_cast<size_t>(page)] > 1; }

  // A page that belongs to nobody, for rows that pad a step. REQUIRES: layout.has_pages().
  int32_t spare() const { return static_cast<int32_t>(capacity_); }

  // Copies all layers' keys and values of a page.
  void Copy(int32_t from, int32_t to);

  // The store of one layer as ops see it. REQUIRES: layers[layer].paged.
  PagedCache layer(size_t layer) const;
  // Keys of one page in one layer, and its values.
  std::byte* keys(size_t layer, int32_t page) const;
  std::byte* values(size_t layer, int32_t page) const;

 private:
  // Neither taken nor promised.
  int64_t num_free() const;

  struct LayerStore {
    DeviceMemory keys;
    DeviceMemory values;
    size_t key_bytes = 0;  // of a page
    size_t value_bytes = 0;
  };

  const CacheLayout& layout_;
  Budget& budget_;
  Device& device_;
  int64_t capacity_ = 0;  // pages
  std::vector<LayerStore> layers_;
  IdPool ids_;
  std::vector<int32_t> holders_;  // [pages ever promised at a time]
  int64_t promised_ = 0;          // pages
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_PAGE_STORE_H_
