// The keys or values of one K/V head of one sequence, by absolute position, in pages or in a ring.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_HEAD_ROWS_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_HEAD_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Rows at equal distances in memory.
struct RowRun {
  const std::byte* data = nullptr;
  int64_t stride = 0;  // bytes from row to row
  int64_t count = 0;
  const BF16* scales = nullptr;  // [count] scales of int8 rows
};

// The store of a head is cut into blocks of `slots` rows. If the store has pages, position p is in
// block pages[p / slots]. A ring is one block, in which position p is at p % slots. A ring has only
// the positions before first_position; the later ones are in the step's rows.
struct HeadRows {
  const std::byte* store = nullptr;  // the head's row 0 in block 0
  const int32_t* pages = nullptr;    // nullptr: the store is a ring
  int64_t block_bytes = 0;           // bytes from one page to the next
  int64_t row_bytes = 0;
  int64_t slots = 0;
  int64_t scales = 0;                    // bytes from a block's row 0 to its scales; 0: no scales
  const std::byte* step_rows = nullptr;  // ring only: the row of first_position
  int64_t step_stride = 0;               // ring only: bytes from one row of the step to the next
  int64_t first_position = 0;

  // The rows from `position` on, as far as they are at equal distances in memory.
  LONGSTREAM_INLINE RowRun From(int64_t position) const {
    if (pages != nullptr) {
      const int64_t slot = position % slots;
      const std::byte* page = store + pages[position / slots] * block_bytes;
      const auto* block_scales = reinterpret_cast<const BF16*>(page + scales);
      return {page + slot * row_bytes, row_bytes, slots - slot,
              scales == 0 ? nullptr : block_scales + slot};
    }
    if (position >= first_position) {
      return {step_rows + (position - first_position) * step_stride, step_stride, INT64_MAX};
    }
    const int64_t slot = position % slots;
    const int64_t in_ring = first_position - position;
    return {store + slot * row_bytes, row_bytes, in_ring < slots - slot ? in_ring : slots - slot};
  }
};

// Bytes that are needed soon. They are prefetched part by part while something else is computed.
// All prefetches at once would delay the reads of that computation.
struct Ahead {
  const std::byte* data = nullptr;
  int64_t bytes = 0;

  // The rows [begin, end) if they follow each other in memory without gaps, else nothing.
  LONGSTREAM_INLINE static Ahead Rows(const HeadRows& rows, int64_t begin, int64_t end) {
    if (begin >= end) return {};
    const RowRun run = rows.From(begin);
    if (run.count < end - begin || run.stride != rows.row_bytes) return {};
    return {run.data, (end - begin) * rows.row_bytes};
  }

  // Divides the bytes into `parts` parts, and prefetches the lines that begin in part number
  // `part`.
  LONGSTREAM_INLINE void Ask(int64_t part, int64_t parts) const {
    const int64_t lines = bytes / kLineBytes;
    for (int64_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i) {
      PrefetchL2(data + i * kLineBytes);
    }
  }
};

// Calls body(position, run) for runs that cover the positions [begin, end).
template <typename Body>
LONGSTREAM_INLINE void ForEachRun(const HeadRows& rows, int64_t begin, int64_t end,
                                  const Body& body) {
  while (begin < end) {
    RowRun run = rows.From(begin);
    if (run.count > end - begin) run.count = end - begin;
    body(begin, run);
    begin += run.count;
  }
}

// The keys or values of all heads and sequences of a layer.
struct RowStore {
  const std::byte* data = nullptr;
  DType type = DType::kF32;
  bool paged = false;
  int32_t slots = 0;      // rows of a page or ring
  int32_t num_heads = 0;  // H_kv; in a store of values, H_kv times the slices of a value
  int32_t head_dim = 0;
  int64_t slot_stride = 0;  // ring: bytes from one sequence's ring to the next
  Matrix step_rows;         // ring: this step's rows [T, num_heads * D]

  LONGSTREAM_INLINE static RowStore Keys(const PagedCache& cache) {
    return Pages(cache, cache.keys, cache.num_kv_heads);
  }
  LONGSTREAM_INLINE static RowStore Values(const PagedCache& cache) {
    return Pages(cache, cache.values, cache.num_value_heads());
  }
  LONGSTREAM_INLINE static RowStore Keys(const RingCache& ring, const Matrix& step_rows) {
    return Ring(ring, ring.keys, ring.num_kv_heads, step_rows);
  }
  LONGSTREAM_INLINE static RowStore Values(const RingCache& ring, const Matrix& step_rows) {
    return Ring(ring, ring.values, ring.num_value_heads(), step_rows);
  }

  LONGSTREAM_INLINE HeadRows Head(const BatchLayout& batch, const SequenceRows& sequence,
                                  int64_t head) const {
    const int64_t element = static_cast<int64_t>(SizeOf(type));
    HeadRows rows;
    rows.row_bytes = head_dim * element;
    rows.slots = slots;
    const int64_t head_bytes = PagedHeadBytes(type, slots, head_dim);
    rows.store = data + head * head_bytes;
    if (paged) {
      if (type == DType::kI8) rows.scales = slots * head_dim;
      rows.pages = batch.page_tables + sequence.page_offset;
      rows.block_bytes = num_heads * head_bytes;
      return rows;
    }
    rows.store += sequence.slot * slot_stride;
    rows.step_rows = static_cast<const std::byte*>(step_rows.data) +
                     (sequence.first_row * step_rows.stride + head * head_dim) * element;
    rows.step_stride = step_rows.stride * element;
    rows.first_position = sequence.first_position;
    return rows;
  }

 private:
  LONGSTREAM_INLINE static RowStore Pages(const PagedCache& cache, const void* data,
                                          int32_t num_heads) {
    RowStore store;
    store.data = static_cast<const std::byte*>(data);
    store.type = cache.type;
    store.paged = true;
    store.slots = cache.page_tokens;
    store.num_heads = num_heads;
    store.head_dim = cache.head_dim;
    return store;
  }
  LONGSTREAM_INLINE static RowStore Ring(const RingCache& ring, const std::byte* data,
                                         int32_t num_heads, const Matrix& step_rows) {
    RowStore store;
    store.data = data;
    store.type = ring.type;
    store.slots = ring.slots;
    store.num_heads = num_heads;
    store.head_dim = ring.head_dim;
    store.slot_stride = ring.slot_stride;
    store.step_rows = step_rows;
    return store;
  }
};

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_HEAD_ROWS_H_
