// The layout of a session's memory: the caches of every layer, as sizes and offsets.
#ifndef LONGSTREAM_BACKENDS_CACHES_CACHE_LAYOUT_H_
#define LONGSTREAM_BACKENDS_CACHES_CACHE_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/core/batch_layout.h"
#include "kernels/core/dtype.h"

namespace longstream {

// Tokens per page. A power of two, so that a shift finds a token. 64 tokens of one head of width 64
// are 8 KiB of bf16: long runs for the prefetcher, yet little waste in the last page.
inline constexpr int32_t kPageTokens = 64;

// Tokens between grid lines: the block of the chunk-parallel recurrence and the slack of the rings.
// Prompts of models with recurrences are cut at multiples of it only, other prompts where the ops
// allow (OpTable::cut_grid).
inline constexpr int32_t kPrefillGrid = 64;

// Keys and values of a full-attention layer, laid out as PagedCache (kernels/core/batch_layout.h).
struct PagedLayout {
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_slices = 1;

  int32_t num_value_heads() const { return num_kv_heads * value_slices; }
  // Bytes of one page's keys, and of its values.
  int64_t key_bytes(DType type) const {
    return num_kv_heads * PagedHeadBytes(type, kPageTokens, head_dim);
  }
  int64_t value_bytes(DType type) const { return value_slices * key_bytes(type); }
};

// A ring of keys [num_kv_heads, slots, head_dim] and, unless it is a near ring, values
// [num_value_heads, slots, head_dim].
struct RingLayout {
  int32_t window = 0;  // keys that attention reaches, the current one included
  int32_t slots = 0;   // window + kPrefillGrid
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_slices = 1;  // width of a value / head_dim; 0 in a near ring
  int64_t keys = 0;          // byte offset in a slot
  int64_t values = 0;        // byte offset in a slot; unused in a near ring

  static RingLayout For(int32_t window, int32_t num_kv_heads, int32_t head_dim,
                        int32_t value_slices) {
    return {window, window + kPrefillGrid, num_kv_heads, head_dim, value_slices};
  }

  int32_t num_value_heads() const { return num_kv_heads * value_slices; }
  int64_t key_elements() const { return int64_t{num_kv_heads} * slots * head_dim; }
  int64_t value_elements() const { return value_slices * key_elements(); }
};

// The memory of a linear RNN, f32 (RecurrentCache in kernels/core/batch_layout.h).
struct RecurrentLayout {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  bool gated = false;
  int64_t state = 0;   // byte offset in a slot; [num_heads, key_dim, value_dim]
  int64_t keys = 0;    // byte offset in a slot; [kPrefillGrid, num_kv_heads, key_dim]
  int64_t values = 0;  // byte offset in a slot; [kPrefillGrid, num_kv_heads, value_dim]
  int64_t gates = 0;   // byte offset in a slot; [kPrefillGrid, num_heads, key_dim], if gated

  int64_t state_elements() const { return int64_t{num_heads} * key_dim * value_dim; }
  int64_t key_row() const { return int64_t{num_kv_heads} * key_dim; }
  int64_t value_row() const { return int64_t{num_kv_heads} * value_dim; }
  int64_t gate_row() const { return gated ? int64_t{num_heads} * key_dim : 0; }
};

// The caches of one layer. Exactly one of paged, ring and recurrent is present. A mixer states the
// sizes; PlaceCaches computes offsets and bytes.
struct LayerCacheLayout {
  std::optional<PagedLayout> paged;
  std::optional<RingLayout> near;  // rotated keys beside the pages of a ReRoPE layer
  std::optional<RingLayout> ring;
  std::optional<RecurrentLayout> recurrent;
  uint64_t bytes_per_token = 0;  // of pages
  uint64_t bytes_fixed = 0;      // of rings or recurrent memory
};

// A page id stands for one page in every paged layer. A slot holds the rings and the recurrent
// memory of all layers of one sequence. Near rings are last: they are rebuilt from the pages, so a
// rollback point's copy ends where they begin. Arrays begin at multiples of 64 bytes; byte counts
// are those of the arrays, without the gaps.
struct CacheLayout {
  DType page_type = DType::kF32;  // of keys and values in pages
  DType ring_type =
      DType::kF32;  // of keys and values in rings: page_type, but bf16 beside int8 pages
  std::vector<LayerCacheLayout> layers;

  uint64_t page_bytes = 0;       // one page in all layers
  uint64_t bytes_per_token = 0;  // page_bytes / kPageTokens
  uint64_t ring_bytes = 0;       // rings, near ones included
  uint64_t state_bytes = 0;      // recurrent memory
  uint64_t rollback_bytes = 0;   // of a copy: recurrent memory, and rings without the near ones

  int64_t rollback_end = 0;  // bytes of a slot that a copy covers
  int64_t slot_stride = 0;   // bytes from a slot to the next
  // Bytes from a rollback point's copy to the next.
  int64_t rollback_stride() const { return (rollback_end + 63) / 64 * 64; }

  bool has_pages() const { return page_bytes > 0; }
  bool has_near_rings = false;
  bool has_rings = false;  // of window layers
  bool has_states = false;
  // The fewest slots of a window layer's ring, and of a near ring. No ring forgets a token before
  // more tokens than that are written.
  int64_t min_ring_slots = 0;
  int64_t min_near_slots = 0;
};

// Places the caches of the layers, whose sizes are given: fills in byte offsets and byte counts.
// Pages hold keys and values as `type`. Throws BackendError(LS_INVALID_ARGUMENT) for a layer that
// no machine can hold. REQUIRES: `type` is not kI4.
CacheLayout PlaceCaches(std::vector<LayerCacheLayout> layers, DType type);

// Pages that `tokens` tokens take.
constexpr int64_t PagesFor(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_CACHE_LAYOUT_H_
