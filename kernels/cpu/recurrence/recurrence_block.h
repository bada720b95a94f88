// Linear recurrence of one head within one block of positions between two grid lines.
//
// Row r is a row of the block, S is the state before the block, and F(a, b) is the product of the
// decays of rows a ... b. The op's equation (kernels/ops/recurrence/linear_recurrence.h) has two
// halves:
//
//   PrepareBlock   query'[r] = scale * q_r * F(0, r)
//                  score[r, j] = scale * (q_r * F(j + 1, r)) . k_j       0 <= j <= r
//   ApplyBlock     out_r = query'[r] S + sum_j score[r, j] v_j
//                  and, after the block's last row,
//                  S <- F(0, last) S + sum_j F(j + 1, last) k_j^T v_j
//
// PrepareBlock needs no values. ApplyBlock needs no queries and works on any columns of the values.
// So even a single head with a large state is work for many threads.
//
// If the decay depends on the data, sub-blocks of 16 rows keep every factor <= 1. A decay from one
// sub-block to another is the product of three factors, each the exponential of a sum of log-gates.
// No such sum is a difference, which would lose small log-gates beside large ones.
#ifndef LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_BLOCK_H_
#define LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_BLOCK_H_

#include <cstdint>

#include "kernels/core/lanes/simd_native.h"
#include "kernels/ops/recurrence/linear_recurrence.h"

namespace longstream::cpu::LONGSTREAM_ISA {

inline constexpr int64_t kSubBlock = 16;
// The longest grid that is served. It bounds the scratch on a task's stack.
inline constexpr int64_t kMaxGrid = kMaxRecurrenceGrid;
// The most columns of a slice of the state, and of the outputs. They are 1 KiB of each row, which
// is a long enough run of memory.
inline constexpr int64_t kMaxSliceColumns = 256;

// The rows of a block. Those before `begin` are in the cache; the others are rows of this step.
struct BlockRows {
  const float* cached = nullptr;  // row 0
  int64_t cached_stride = 0;
  const float* step = nullptr;  // row `begin`
  int64_t step_stride = 0;
  int64_t begin = 0;

  LONGSTREAM_INLINE const float* row(int64_t r) const {
    return r < begin ? cached + r * cached_stride : step + (r - begin) * step_stride;
  }
  LONGSTREAM_INLINE int64_t stride(int64_t r) const {
    return r < begin ? cached_stride : step_stride;
  }
  // The rows from r to the returned row, which is at most `end`, have one stride.
  LONGSTREAM_INLINE int64_t EvenUntil(int64_t r, int64_t end) const {
    return r < begin && begin < end ? begin : end;
  }
};

// The part of a step in one block, for one head.
struct RecurrenceBlock {
  int64_t grid = 0;
  int64_t key_dim = 0;
  float scale = 1.0f;
  // Rows [begin, end) of the block are rows of this step.
  int64_t begin = 0;
  int64_t end = 0;
  bool is_decode = false;  // the only row of this step is a decode row

  const float* queries = nullptr;  // from row `begin` on
  int64_t query_stride = 0;
  BlockRows keys;
  BlockRows values;
  // Whether there is a decay for each row and key element. If not, the decay is fixed.
  bool gated = false;
  float log_decay = 0.0f;
  const float* gates = nullptr;  // logits, from row `begin` on
  int64_t gate_stride = 0;
  BlockRows log_gates;  // PrepareBlock writes the log-gates of this step's rows

  // PrepareBlock writes the arrays below. Their first row is row `begin`.
  float* decayed_queries = nullptr;  // [end - begin, key_dim]
  float* step_log_gates = nullptr;
  int64_t log_gate_stride = 0;
  float* scores = nullptr;  // [end - begin, grid]

  LONGSTREAM_INLINE bool complete() const { return end == grid; }
};

void PrepareBlock(const RecurrenceBlock& block);

// The columns [column, column + count) of the state and of the outputs.
struct RecurrenceSlice {
  int64_t column = 0;
  int64_t count = 0;
  float* state = nullptr;  // [Dk, Dv], from column 0 on
  int64_t state_stride = 0;
  float* out = nullptr;  // from row `begin` and column 0 on
  int64_t out_stride = 0;
};
void ApplyBlock(const RecurrenceBlock& block, const RecurrenceSlice& slice);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_BLOCK_H_
