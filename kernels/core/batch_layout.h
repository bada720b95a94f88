// Describe to an op which rows belong to which sequence, and where the sequence's caches are.
//
// The arrays are in the device's memory and only the device reads them: no op branches on them on
// the host. So a captured CUDA graph can be replayed with other lengths and pages. The counts of
// BatchLayout are on the host; a graph keeps those that it was captured with.
#ifndef LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_
#define LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

// One sequence's rows in a step: rows [first_row, first_row + num_rows) have the positions
// first_position, first_position + 1, ... The caches hold all earlier positions.
struct SequenceRows {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int64_t first_position = 0;
  int32_t slot = 0;         // the slot of its rings and states in the slot store
  int32_t page_offset = 0;  // its page table begins at BatchLayout::page_tables + page_offset
  int32_t is_decode = 0;    // 1: one generated token; 0: a piece of a prefill
};

struct BatchLayout {
  int32_t num_rows = 0;                     // T, of all sequences together
  int32_t num_sequences = 0;                // S
  int32_t num_decode_rows = 0;              // sequences with is_decode, one row each
  const SequenceRows* sequences = nullptr;  // [S] in the order of their rows
  const int32_t* row_sequence = nullptr;    // [T] index into sequences
  const int64_t* positions = nullptr;       // [T] absolute position of each row
  // The page tables of all sequences, one after the other. Position j of a sequence is in page
  // page_tables[page_offset + j / page_tokens], at row j % page_tokens. Includes the step's rows.
  const int32_t* page_tables = nullptr;
};

// Keys and values of one full-attention layer, in one store of pages for all sequences.
//   keys    [page, H_kv] heads, each [page_tokens, D] row-major
//   values  [page, H_kv * value_slices] heads, likewise
// A value of width value_slices * D is stored as value_slices heads of width D.
//
// With kI8 a head has `rows` [page_tokens, D] int8, then `scales` [page_tokens] bf16: element d of
// row i is scales[i] * rows[i, d]. REQUIRES then: page_tokens * D is even.
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

// Bytes of one head of keys or values in a page.
constexpr int64_t PagedHeadBytes(DType type, int64_t page_tokens, int64_t head_dim) {
  const int64_t scale = type == DType::kI8 ? static_cast<int64_t>(sizeof(BF16)) : 0;
  return page_tokens * (head_dim * static_cast<int64_t>(SizeOf(type)) + scale);
}

// The last keys and values of one layer. Each sequence has a ring, in which position j is at row
// j % slots. The ring begins at base + slot * slot_stride bytes:
//   keys    [H_kv, slots, D] row-major
//   values  [H_kv * value_slices, slots, D] row-major
// The ring of a window layer has more rows than its window, so that a short rollback still finds
// the tokens that it needs.
struct RingCache {
  std::byte* keys = nullptr;    // the keys of slot 0
  std::byte* values = nullptr;  // the values of slot 0; nullptr: only keys (ReRoPE)
  int64_t slot_stride = 0;      // bytes from one sequence's ring to the next
  DType type = DType::kF32;
  int32_t slots = 0;  // length of a ring, in tokens
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_slices = 1;  // as in PagedCache

  constexpr int32_t num_value_heads() const { return num_kv_heads * value_slices; }
};

// The memory of one linear-RNN layer, all f32 and row-major. Each sequence has, at base + slot *
// slot_stride bytes, the state at the last grid line g = grid * floor(position / grid), and the
// rows since g:
//   state   [H, Dk, Dv]
//   keys    [grid, H_kv, Dk]    row r belongs to position g + r
//   values  [grid, H_kv, Dv]
//   gates   [grid, H, Dk]       log-gates, only for data-dependent decay
// So a decode step between grid lines writes one row and no state, and a rollback that crosses no
// grid line is free.
struct RecurrentCache {
  std::byte* state = nullptr;   // the state of slot 0
  std::byte* keys = nullptr;    // the keys of slot 0
  std::byte* values = nullptr;  // the values of slot 0
  std::byte* gates = nullptr;   // the gates of slot 0; nullptr: the decay is fixed
  int64_t slot_stride = 0;      // bytes from one sequence's memory to the next
  int32_t grid = 0;             // tokens between grid lines
  int32_t num_heads = 0;        // H
  int32_t num_kv_heads = 0;     // H_kv; head h reads K/V head h / (H / H_kv)
  int32_t key_dim = 0;          // Dk
  int32_t value_dim = 0;        // Dv
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_
