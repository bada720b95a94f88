// Tells an op which rows of a step belong to which sequence, and where the caches of the sequences
// are.
//
// The arrays are in the device's memory and only the device reads them: the work that a host
// submits does not depend on their contents. So a captured CUDA graph can be replayed with other
// lengths and pages. The counts of BatchLayout are on the host. A graph keeps the counts that it
// was captured with.
#ifndef LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_
#define LONGSTREAM_KERNELS_CORE_BATCH_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"

namespace longstream {

// The rows of one sequence in a step. Rows [first_row, first_row + num_rows) of the step have the
// positions first_position, first_position + 1, ... The caches hold the sequence's earlier
// positions.
struct SequenceRows {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int64_t first_position = 0;
  int32_t slot = 0;         // the slot of the sequence's rings and states
  int32_t page_offset = 0;  // the page table begins at BatchLayout::page_tables + page_offset
  int32_t is_decode = 0;    // 1: one generated token; 0: a piece of a prefill
};

struct BatchLayout {
  int32_t num_rows = 0;                     // T, of all sequences together
  int32_t num_sequences = 0;                // S
  int32_t num_decode_rows = 0;              // number of sequences with is_decode; each has one row
  const SequenceRows* sequences = nullptr;  // [S] in the order of their rows
  const int32_t* row_sequence = nullptr;    // [T] index into sequences
  const int64_t* positions = nullptr;       // [T] absolute position of each row
  // The page tables of all sequences, one after the other. Position j of a sequence is in page
  // page_tables[page_offset + j / page_tokens], at row j % page_tokens. A table includes the pages
  // of the step's own rows.
  const int32_t* page_tables = nullptr;
};

// Keys and values of one full-attention layer. One store of pages holds them for all sequences:
//   keys    [page, H_kv] heads, each [page_tokens, D] row-major
//   values  [page, H_kv * value_slices] heads, each [page_tokens, D] row-major
// A value of width value_slices * D is stored as value_slices heads of width D.
//
// A head of type kI8 has `rows` [page_tokens, D] int8, followed by `scales` [page_tokens] bf16.
// Element d of row i is scales[i] * rows[i, d]. REQUIRES with kI8: page_tokens * D is even.
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

// The keys and values of the last tokens, for one layer. Each sequence has a ring, in which
// position j is at row j % slots. The ring's keys begin slot * slot_stride bytes after `keys`, and
// its values begin as many bytes after `values`:
//   keys    [H_kv, slots, D] row-major
//   values  [H_kv * value_slices, slots, D] row-major
// The ring of a window layer has more rows than its window, so that a short rollback still finds
// the tokens that it needs.
struct RingCache {
  std::byte* keys = nullptr;    // the keys of slot 0
  std::byte* values = nullptr;  // the values of slot 0; nullptr: rings hold only keys (ReRoPE)
  int64_t slot_stride = 0;      // bytes from one sequence's ring to the next
  DType type = DType::kF32;
  int32_t slots = 0;  // length of a ring, in tokens
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_slices = 1;  // as in PagedCache

  constexpr int32_t num_value_heads() const { return num_kv_heads * value_slices; }
};

// The memory of one linear-RNN layer, all f32 and row-major. For each sequence it holds the state
// at the last grid line g = grid * floor(position / grid), and the rows since g. Each of these
// arrays begins slot * slot_stride bytes after the pointer of its name:
//   state   [H, Dk, Dv]
//   keys    [grid, H_kv, Dk]    row r belongs to position g + r
//   values  [grid, H_kv, Dv]
//   gates   [grid, H, Dk]       log-gates, only for data-dependent decay
// A decode step between grid lines writes one row and no state. A rollback that crosses no grid
// line is free.
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
