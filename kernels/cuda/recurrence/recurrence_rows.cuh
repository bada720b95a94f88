// Shared parts of the kernels of the linear recurrence: the blocks of the grid that contain a
// step's rows; the rows of a block, which are in the cache (earlier steps) or in the step's
// matrices (this step); and the workspace through which one kernel passes results to the next.
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_ROWS_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_ROWS_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/ops/recurrence/linear_recurrence.h"

namespace longstream::cuda {

// ln sigmoid(x), exact near 0 and for large |x|. It has the same bits in every kernel, because the
// compiler cannot fuse it with a later addition.
__device__ __forceinline__ float LogSigmoid(float x) {
  return __fsub_rn(fminf(x, 0.0f), log1pf(expf(-fabsf(x))));
}

// The last grid line at or before a position. The function divides 32-bit numbers, in which
// positions fit. A 32-bit division takes a dozen operations, a 64-bit one a hundred.
__device__ __forceinline__ int64_t LineBefore(int64_t position, int64_t grid) {
  return position - static_cast<int>(position) % static_cast<int>(grid);
}

__device__ __forceinline__ bool IsLine(int64_t position, int64_t grid) {
  return LineBefore(position, grid) == position;
}

// The part of a sequence's step that lies in one block of the grid.
struct GridBlock {
  int64_t line;   // position of the block's row 0
  int64_t begin;  // begin, end: positions of the step's rows in the block
  int64_t end;
  int64_t t;  // the step's row at `begin`

  // The part of a block from `position` on; `position` must be that of a row of the step.
  static __device__ __forceinline__ GridBlock From(const SequenceRows& sequence, int64_t position,
                                                   int64_t grid) {
    GridBlock block;
    block.line = LineBefore(position, grid);
    block.begin = position;
    block.end = min(block.line + grid, sequence.first_position + sequence.num_rows);
    block.t = sequence.first_row + (position - sequence.first_position);
    return block;
  }

  __device__ bool complete(int64_t grid) const { return end == line + grid; }
  // Whether row r of the block is one of the step's.
  __device__ bool Has(int r) const { return line + r >= begin && line + r < end; }
  // The index in the step's matrices of row r of the block.
  __device__ int64_t StepRow(int r) const { return t + (line + r - begin); }
};

// Results of ScoreKernel for all blocks, which StateKernel reads when it goes through the blocks.
struct RecurrenceWorkspace {
  float* queries;  // [T, H, Dk] q F(g, t), if gated
  float* keys;     // [T, H, Dk] k F(t + 1, next line - 1), if gated, for whole blocks of this step
  float* scores;   // [T, H, grid]
  float* totals;   // [T / grid, H, Dk] F over a whole block, at index t / grid of its first row t
  int64_t heads;
  int64_t key_dim;
  int64_t grid;

  __device__ float* Query(int64_t t, int64_t head) const { return Row(queries, t, head, key_dim); }
  __device__ float* Key(int64_t t, int64_t head) const { return Row(keys, t, head, key_dim); }
  __device__ float* Score(int64_t t, int64_t head) const { return Row(scores, t, head, grid); }
  __device__ float* Total(int64_t t, int64_t head) const {
    return Row(totals, static_cast<int>(t) / static_cast<int>(grid), head, key_dim);
  }

 private:
  __device__ float* Row(float* base, int64_t t, int64_t head, int64_t width) const {
    return base + (t * heads + head) * width;
  }
};

// Rows of one sequence, as one head reads them.
class RecurrenceRows {
 public:
  __device__ RecurrenceRows(const LinearRecurrenceArgs& args, const SequenceRows& sequence,
                            int64_t head)
      : args_(args),
        head_(static_cast<int>(head)),
        heads_of_one_(args.cache.num_heads / args.cache.num_kv_heads),
        kv_head_(head_ / heads_of_one_),
        first_position_(sequence.first_position),
        held_(static_cast<int>(first_position_) % args.cache.grid),
        first_row_(sequence.first_row),
        offset_(sequence.slot * args.cache.slot_stride) {}

  __device__ int64_t key_dim() const { return args_.cache.key_dim; }
  __device__ int64_t value_dim() const { return args_.cache.value_dim; }
  __device__ int64_t kv_head() const { return kv_head_; }
  // Whether the head is the first of those that share a key and value head.
  __device__ bool leads() const { return head_ == kv_head_ * heads_of_one_; }
  // The last grid line before the step.
  __device__ int64_t line() const { return first_position_ - held_; }

  // The key [Dk] or value [Dv] at `position`, which is not before line().
  __device__ const float* Key(int64_t position) const {
    const RecurrentCache& cache = args_.cache;
    return Row(args_.k, cache.keys, position, cache.num_kv_heads, kv_head_, cache.key_dim);
  }
  __device__ const float* Value(int64_t position) const {
    const RecurrentCache& cache = args_.cache;
    return Row(args_.v, cache.values, position, cache.num_kv_heads, kv_head_, cache.value_dim);
  }

  __device__ bool gated() const { return args_.log_decay == nullptr; }
  // ln f of all elements at all positions, if not gated.
  __device__ float FixedLogDecay() const { return args_.log_decay[head_]; }
  // ln f of key element i at `position`, if gated.
  __device__ float LogGate(int64_t position, int64_t i) const {
    const RecurrentCache& cache = args_.cache;
    const float* row =
        Row(args_.gate, cache.gates, position, cache.num_heads, head_, cache.key_dim);
    return position < first_position_ ? row[i] : LogSigmoid(row[i]);
  }

  // [Dk, Dv]
  __device__ float* State() const {
    return Memory(args_.cache.state) + int64_t{head_} * args_.cache.key_dim * args_.cache.value_dim;
  }
  // The sequence's part of one of the cache's stores.
  __device__ float* Memory(std::byte* store) const {
    return reinterpret_cast<float*>(store + offset_);
  }

 private:
  __device__ __forceinline__ const float* Row(const Matrix& step, const std::byte* store,
                                              int64_t position, int heads, int head,
                                              int dim) const {
    const int since = static_cast<int>(position - first_position_);
    if (since < 0) {
      return reinterpret_cast<const float*>(store + offset_) +
             ((held_ + since) * heads + head) * dim;
    }
    return static_cast<const float*>(step.data) + (first_row_ + since) * step.stride + head * dim;
  }

  const LinearRecurrenceArgs& args_;
  const int head_;
  const int heads_of_one_;  // heads that share a key and value head
  const int kv_head_;
  const int64_t first_position_;
  const int held_;  // rows in the cache, from a grid line on
  const int64_t first_row_;
  const int64_t offset_;  // offset of the sequence's memory
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_ROWS_CUH_
