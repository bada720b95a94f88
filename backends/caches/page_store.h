// The pages of all paged layers of a model, which sequences share by reference counts.
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

// Take uses the lowest free page, and a free page keeps its memory until ReturnIdle. So the memory
// of a warm process does not grow, and steps seldom cause page faults. Under AddressSanitizer, free
// pages are poisoned.
//
// Promise reserves memory and may fail; Take uses a promise and cannot fail. Not thread-safe.
class PageStore {
 public:
  // Allocates `capacity_bytes` of pages and the spare page. The arguments must outlive the store.
  PageStore(const CacheLayout& layout, uint64_t capacity_bytes, Budget& budget, Device& device);

  // Reserves memory for `pages` pages. Throws BackendError(LS_RESOURCE_EXHAUSTED).
  void Promise(int64_t pages);
  // Whether Promise would succeed.
  bool CanPromise(int64_t pages) const;
  void TakeBackPromise(int64_t pages);

  // Uses one promise and returns a page with one holder and undefined contents, all of which the
  // caller must overwrite (Copy). Allocates nothing. REQUIRES: at least one promised page is left.
  int32_t Take();
  // Takes `count` pages, all of whose bytes are zero, and appends them to *pages. So no byte that a
  // sequence can reach is of another one. Allocates nothing. REQUIRES: as many promised pages are
  // left, and *pages has capacity for them.
  void TakeZeroed(int64_t count, std::vector<int32_t>* pages);
  // Adds a holder to the page.
  void Share(int32_t page) { ++holders_[static_cast<size_t>(page)]; }
  // Removes a holder. When the last holder is removed, the page is free.
  void Release(int32_t page);
  // Release by the only holder, who keeps the memory as a promise. Never fails. REQUIRES: the page
  // is not shared.
  void ReleaseAsPromise(int32_t page);
  bool IsShared(int32_t page) const { return holders_[static_cast<size_t>(page)] > 1; }

  // Memory of free pages that no promise will use.
  uint64_t idle_bytes() const;
  // Gives up to `bytes` of the idle memory back to the system. Returns how many bytes.
  uint64_t ReturnIdle(uint64_t bytes);

  // A page that belongs to no sequence, for the padding rows of a step. REQUIRES:
  // layout.has_pages().
  int32_t spare() const { return static_cast<int32_t>(capacity_); }

  // Copies a page's keys and values in all layers.
  void Copy(int32_t from, int32_t to);

  // One layer's pages, in the form that ops read. REQUIRES: layers[layer].paged.
  PagedCache layer(size_t layer) const;
  // The keys or the values of one page in one layer.
  std::byte* keys(size_t layer, int32_t page) const;
  std::byte* values(size_t layer, int32_t page) const;

 private:
  // The number of pages that are neither taken nor promised.
  int64_t num_free() const;
  // The number of idle pages beyond those that the promises will use.
  size_t num_idle() const;
  void Free(int32_t page);
  IdPool::Taken TakePromised();
  // Zeroes the pages [first, last) in all layers.
  void Zero(int32_t first, int32_t last);

  struct LayerStore {
    DeviceMemory keys;
    DeviceMemory values;
    size_t key_bytes = 0;  // per page
    size_t value_bytes = 0;
  };

  const CacheLayout& layout_;
  Budget& budget_;
  Device& device_;
  int64_t capacity_ = 0;  // in pages
  std::vector<LayerStore> layers_;
  IdPool ids_;
  std::vector<int32_t> holders_;  // [largest number of pages ever taken and promised]
  int64_t promised_ = 0;          // in pages
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_PAGE_STORE_H_
