// Descriptors that tell an op which rows belong to which sequence and where its caches lie.
//
// They are plain arrays in the device's memory, read where the op runs: no op branches on them on
// the host, so that a captured CUDA graph can be replayed with other lengths and pages. The counts
// of BatchLayout are the host's, and a graph's own.
#ifndef LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_
#define LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

// One sequence's rows in a step: rows [first_row, first_row + num_rows) at positions
// first_position, first_position + 1, ... Everything before first_position is in its caches.
struct SequenceRows {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int64_t first_position = 0;
  int32_t slot = 0;         // index of its rings and states in the slot store
  int32_t page_offset = 0;  // its page table begins at BatchLayout::page_tables + page_offset
  int32_t is_decode = 0;    // 1: one generated token; 0: a piece of a prefill
};

struct BatchLayout {
  int32_t num_rows = 0;                     // T, all sequences together
  int32_t num_sequences = 0;                // S
  int32_t num_decode_rows = 0;              // sequences with is_decode, which have a row each
  const SequenceRows* sequences = nullptr;  // [S], in the order of their rows
  const int32_t* row_sequence = nullptr;    // [T] index into sequences
  const int64_t* positions = nullptr;       // [T] absolute position of each row
  // Page ids of all sequences, one table after the other: token j of a sequence is in page
  // page_tables[page_offset + j / page_tokens] at slot j % page_tokens. Covers the step's own rows.
  const int32_t* page_tables = nullptr;
};

// Keys and values of one full-attention layer, in pages that all sequences share. A value may be
// wider than a key, a multiple of D: it is stored as that many heads of width D, its slices.
// Keys: [page, H_kv] heads of [page_tokens, D], row-major; values: [page, H_kv * value_slices].
//
// Of kI8 a head is its rows of int8 numbers and, behind them all, their scales [page_tokens] bf16:
// element d of row i is scales[i] * rows[i, d]. REQUIRES then: page_tokens * D is even.
struct PagedCache {
  void* keys = nullptr;
  void* values = nullptr;
  DType type = DType::kF32;
  int32_t page_tokens = 0;
  int32_t num_kv_heads = 0;  // H_kv
  int32_t head_dim = 0;      // D
  int32_t value_slices = 1;  // width of a value / D

  constexpr int32_t num_value_heads() const { return num_kv_heads * value_slices; }
};

// Bytes of one head in a page of keys (or of values).
constexpr int64_t PagedHeadBytes(DType type, int64_t page_tokens, int64_t head_dim) {
  const int64_t scale = type == DType::kI8 ? static_cast<int64_t>(sizeof(BF16)) : 0;
  return page_tokens * (head_dim * static_cast<int64_t>(SizeOf(type)) + scale);
}

// The last keys (and values) of one layer, per sequence: position j lies at ring slot j % slots.
// Per sequence: keys [H_kv, slots, D], values [H_kv * value_slices, slots, D], row-major, at base +
// slot * slot_stride bytes. A ring of a window layer has slots beyond its window, so that the
// tokens a short rollback needs are still there.
struct RingCache {
  std::byte* keys = nullptr;    // of slot 0
  std::byte* values = nullptr;  // of slot 0; nullptr where the ring holds keys only (ReRoPE)
  int64_t slot_stride = 0;      // bytes from one sequence's ring to the next
  DType type = DType::kF32;
  int32_t slots = 0;  // ring length in tokens
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_slices = 1;  // as of PagedCache

  constexpr int32_t num_value_heads() const { return num_kv_heads * value_slices; }
};

// The memory of one linear-RNN layer, per sequence, all f32, at base + slot * slot_stride bytes:
// the state S [H, Dk, Dv] as of the last grid line g = grid * floor(position / grid), and the rows
// since: keys [grid, H_kv, Dk], values [grid, H_kv, Dv] and, for data-dependent decay, the
// log-gates [grid, H, Dk]. Row r belongs to position g + r. A decode step therefore writes one row
// and no state between grid lines, and a rollback that stays behind no grid line is free.
struct RecurrentCache {
  std::byte* state = nullptr;   // of slot 0
  std::byte* keys = nullptr;    // of slot 0
  std::byte* values = nullptr;  // of slot 0
  std::byte* gates = nullptr;   // of slot 0; nullptr for a fixed decay
  int64_t slot_stride = 0;      // bytes from one sequence's memory to the next
  int32_t grid = 0;             // tokens between grid lines
  int32_t num_heads = 0;        // H
  int32_t num_kv_heads = 0;     // H_kv; head h reads K/V head h / (H / H_kv)
  int32_t key_dim = 0;          // Dk
  int32_t value_dim = 0;        // Dv
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_
