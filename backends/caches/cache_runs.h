// The arrays of a sequence's memory that snapshots contain, and the runs of bytes in which each
// array lies.
#ifndef LONGSTREAM_BACKENDS_CACHES_CACHE_RUNS_H_
#define LONGSTREAM_BACKENDS_CACHES_CACHE_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/caches/cache_layout.h"

namespace longstream {

// The numbers are part of both formats of snapshots (docs/snapshots.md).
enum class CacheArray : uint32_t {
  kPagedKeys = 0,
  kPagedValues = 1,
  kRingKeys = 2,
  kRingValues = 3,
  kState = 4,
  kPendingKeys = 5,
  kPendingValues = 6,
  kPendingGates = 7,
};

// Calls visit(layer, array) for every array, in the order of snapshots.
template <typename Visit>
void ForEachArray(const CacheLayout& layout, Visit&& visit) {
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerCacheLayout& layer = layout.layers[i];
    if (layer.paged) {
      visit(i, CacheArray::kPagedKeys);
      visit(i, CacheArray::kPagedValues);
    }
    if (layer.ring) {
      visit(i, CacheArray::kRingKeys);
      visit(i, CacheArray::kRingValues);
    }
    if (layer.recurrent) {
      visit(i, CacheArray::kState);
      visit(i, CacheArray::kPendingKeys);
      visit(i, CacheArray::kPendingValues);
      if (layer.recurrent->gated) visit(i, CacheArray::kPendingGates);
    }
  }
}

// Calls visit(data, size) for the runs of the first `tokens` tokens of a page: [head][token].
// `page` points to the page's keys or values. In int8 pages, a head has a run with the numbers of
// its tokens and then a run with their scales.
template <typename Visit>
void ForEachPageRun(const CacheLayout& layout, size_t layer, bool values, std::byte* page,
                    int64_t tokens, Visit&& visit) {
  const PagedLayout& paged = *layout.layers[layer].paged;
  const DType type = layout.page_type;
  const size_t row = static_cast<size_t>(paged.head_dim) * SizeOf(type);
  const auto head_bytes = static_cast<size_t>(PagedHeadBytes(type, kPageTokens, paged.head_dim));
  const int32_t num_heads = values ? paged.num_value_heads() : paged.num_kv_heads;
  const auto count = static_cast<size_t>(tokens);
  for (int32_t head = 0; head < num_heads; ++head) {
    std::byte* rows = page + static_cast<size_t>(head) * head_bytes;
    visit(rows, count * row);
    if (type == DType::kI8) visit(rows + kPageTokens * row, count * sizeof(BF16));
  }
}

// Calls visit(data, size) for the runs of the window before `position`: [head][token], tokens in
// ascending order. A head has at most two runs. `slot` points to the sequence's slot.
template <typename Visit>
void ForEachRingRun(const CacheLayout& layout, const RingLayout& ring, bool values, std::byte* slot,
                    int64_t position, Visit&& visit) {
  const size_t row = static_cast<size_t>(ring.head_dim) * SizeOf(layout.ring_type);
  std::byte* data = slot + (values ? ring.values : ring.keys);
  const int32_t num_heads = values ? ring.num_value_heads() : ring.num_kv_heads;
  for (int32_t head = 0; head < num_heads; ++head) {
    int64_t token = std::max<int64_t>(position - ring.window, 0);
    while (token < position) {
      const int64_t at = token % ring.slots;
      const int64_t tokens = std::min(position - token, ring.slots - at);
      visit(data + static_cast<size_t>(head * ring.slots + at) * row,
            static_cast<size_t>(tokens) * row);
      token += tokens;
    }
  }
}

// Calls visit(data, size) for the runs of an array that lies in the sequence's slot. REQUIRES:
// `array` is none of pages.
template <typename Visit>
void ForEachSlotRun(const CacheLayout& layout, size_t layer, CacheArray array, std::byte* slot,
                    int64_t position, Visit&& visit) {
  const LayerCacheLayout& caches = layout.layers[layer];
  const auto pending = position % kPrefillGrid;
  const auto f32 = [&](int64_t offset, int64_t elements) {
    visit(slot + offset, static_cast<size_t>(elements) * sizeof(float));
  };
  switch (array) {
    case CacheArray::kPagedKeys:
    case CacheArray::kPagedValues:
      return;
    case CacheArray::kRingKeys:
      return ForEachRingRun(layout, *caches.ring, /*values=*/false, slot, position, visit);
    case CacheArray::kRingValues:
      return ForEachRingRun(layout, *caches.ring, /*values=*/true, slot, position, visit);
    case CacheArray::kState:
      return f32(caches.recurrent->state, caches.recurrent->state_elements());
    case CacheArray::kPendingKeys:
      return f32(caches.recurrent->keys, caches.recurrent->key_row() * pending);
    case CacheArray::kPendingValues:
      return f32(caches.recurrent->values, caches.recurrent->value_row() * pending);
    case CacheArray::kPendingGates:
      return f32(caches.recurrent->gates, caches.recurrent->gate_row() * pending);
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_CACHE_RUNS_H_
