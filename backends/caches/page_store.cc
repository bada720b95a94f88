// Gives out pages, and counts their holders and their promises.
#include "backends/caches/page_store.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

#include "backends/caches/idle_memory.h"
#include "backends/errors/error.h"

namespace longstream {

PageStore::PageStore(const CacheLayout& layout, uint64_t capacity_bytes, Budget& budget,
                     Device& device)
    : layout_(layout), budget_(budget), device_(device), layers_(layout.layers.size()) {
  if (!layout.has_pages()) return;
  capacity_ = static_cast<int64_t>(
      std::min<uint64_t>(capacity_bytes / layout.page_bytes, std::numeric_limits<int32_t>::max()));
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (!layout.layers[i].paged) continue;
    LayerStore& store = layers_[i];
    const PagedLayout& paged = *layout.layers[i].paged;
    store.key_bytes = static_cast<size_t>(paged.key_bytes(layout.page_type));
    store.value_bytes = static_cast<size_t>(paged.value_bytes(layout.page_type));
    const size_t pages = static_cast<size_t>(capacity_) + 1;
    store.keys = DeviceMemory(device, store.key_bytes * pages, "pages of keys");
    store.values = DeviceMemory(device, store.value_bytes * pages, "pages of values");
    store.keys.SetPieceBytes(store.key_bytes);
    store.values.SetPieceBytes(store.value_bytes);
  }
}

void PageStore::Promise(int64_t pages) {
  if (pages == 0) return;
  const uint64_t bytes = static_cast<uint64_t>(pages) * layout_.page_bytes;
  budget_.Require(bytes, "a reservation of pages");
  if (!CanPromise(pages)) {
    throw BackendError(LS_RESOURCE_EXHAUSTED, "pages: a reservation needs " +
                                                  std::to_string(pages) + ", " +
                                                  std::to_string(num_free()) + " of " +
                                                  std::to_string(capacity_) + " are free");
  }
  // The arrays grow here, so that Take does not allocate.
  const size_t most = ids_.num_taken() + static_cast<size_t>(promised_ + pages);
  ids_.Prepare(most);
  if (holders_.size() < most) holders_.resize(most);
  budget_.Add(CacheKind::kPromised, bytes);
  promised_ += pages;
}

bool PageStore::CanPromise(int64_t pages) const {
  return pages == 0 || (pages <= num_free() &&
                        static_cast<uint64_t>(pages) * layout_.page_bytes <= budget_.free());
}

int64_t PageStore::num_free() const {
  return capacity_ - static_cast<int64_t>(ids_.num_taken()) - promised_;
}

void PageStore::TakeBackPromise(int64_t pages) {
  assert(pages <= promised_);
  budget_.Remove(CacheKind::kPromised, static_cast<uint64_t>(pages) * layout_.page_bytes);
  promised_ -= pages;
}

int32_t PageStore::Take() { return TakePromised().id; }

void PageStore::TakeZeroed(int64_t count, std::vector<int32_t>* pages) {
  int32_t first = 0, last = 0;  // the pages of a run of neighbours that are not zero
  for (; count > 0; --count) {
    const auto [page, was_idle] = TakePromised();
    pages->push_back(page);
    if (!was_idle) continue;
    if (page != last) {
      Zero(first, last);
      first = page;
    }
    last = page + 1;
  }
  Zero(first, last);
}

void PageStore::Zero(int32_t first, int32_t last) {
  if (first == last) return;
  const auto count = static_cast<size_t>(last - first);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (!layout_.layers[i].paged) continue;
    device_.Zero(keys(i, first), count * layers_[i].key_bytes);
    device_.Zero(values(i, first), count * layers_[i].value_bytes);
  }
}

IdPool::Taken PageStore::TakePromised() {
  assert(promised_ > 0);
  --promised_;
  budget_.Move(CacheKind::kPromised, CacheKind::kPages, layout_.page_bytes);
  const IdPool::Taken taken = ids_.Take();
  const auto index = static_cast<size_t>(taken.id);
  holders_[index] = 1;
  for (LayerStore& store : layers_) {
    store.keys.Unpoison(index * store.key_bytes, store.key_bytes);
    store.values.Unpoison(index * store.value_bytes, store.value_bytes);
  }
  return taken;
}

void PageStore::Release(int32_t page) {
  int32_t& holders = holders_[static_cast<size_t>(page)];
  assert(holders > 0);
  if (--holders > 0) return;
  budget_.Remove(CacheKind::kPages, layout_.page_bytes);
  Free(page);
}

void PageStore::ReleaseAsPromise(int32_t page) {
  int32_t& holders = holders_[static_cast<size_t>(page)];
  assert(holders == 1);
  holders = 0;
  budget_.Move(CacheKind::kPages, CacheKind::kPromised, layout_.page_bytes);
  ++promised_;
  Free(page);
}

void PageStore::Free(int32_t page) {
  for (LayerStore& store : layers_) {
    const size_t index = static_cast<size_t>(page);
    store.keys.Poison(index * store.key_bytes, store.key_bytes);
    store.values.Poison(index * store.value_bytes, store.value_bytes);
  }
  ids_.Give(page);
}

size_t PageStore::num_idle() const {
  return ids_.num_idle() - std::min(ids_.num_idle(), static_cast<size_t>(promised_));
}

uint64_t PageStore::idle_bytes() const { return num_idle() * layout_.page_bytes; }

uint64_t PageStore::ReturnIdle(uint64_t bytes) {
  if (!layout_.has_pages()) return 0;
  const uint64_t wanted = (bytes + layout_.page_bytes - 1) / layout_.page_bytes;
  const size_t most = static_cast<size_t>(std::min<uint64_t>(wanted, num_idle()));
  const auto give_back = [this](size_t first, size_t last) {
    for (LayerStore& store : layers_) {
      ReturnPieces(store.keys, store.key_bytes, ids_, first, last);
      ReturnPieces(store.values, store.value_bytes, ids_, first, last);
    }
  };
  return ids_.ReturnIdle(most, give_back) * layout_.page_bytes;
}

void PageStore::Copy(int32_t from, int32_t to) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (!layout_.layers[i].paged) continue;
    device_.Copy(keys(i, to), keys(i, from), layers_[i].key_bytes);
    device_.Copy(values(i, to), values(i, from), layers_[i].value_bytes);
  }
}

PagedCache PageStore::layer(size_t layer) const {
  const PagedLayout& paged = *layout_.layers[layer].paged;
  return {layers_[layer].keys.data(), layers_[layer].values.data(),
          layout_.page_type,          kPageTokens,
          paged.num_kv_heads,         paged.head_dim,
          paged.value_slices};
}

std::byte* PageStore::keys(size_t layer, int32_t page) const {
  return layers_[layer].keys.data() + static_cast<size_t>(page) * layers_[layer].key_bytes;
}

std::byte* PageStore::values(size_t layer, int32_t page) const {
  return layers_[layer].values.data() + static_cast<size_t>(page) * layers_[layer].value_bytes;
}

}  // namespace longstream
