// Linear recurrence of decode rows. A thread block computes a row, a head and a slice of value
// columns. Warp w takes the w-th eighth of the key elements in the product with the state, and rows
// 8 w ... 8 w + 7 of the block in all sums over rows. So the order of every sum follows from the
// position.
//
// Before anything is computed, the warps prefetch their rows' keys and values into L2, and each
// thread loads its elements of the state. With 64 columns and 128 key elements a thread block has
// 32 KiB of the state, up to 32 KiB of keys and up to 16 KiB of values in flight, and two blocks
// run on an SM.
//
// An SM has little more time for a block than these bytes take, so addresses must cost few
// instructions: rows beyond the last one and columns beyond the value are replaced by valid ones
// whose results are not used, instead of by branches, and offsets have 32 bits. (With a branch for
// each load and offsets of 64 bits, a warp executed some 4000 instructions, and an H200 reached
// 0.30 of the speed of a copy.)
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/warp.cuh"
#include "kernels/cuda/recurrence/recurrence_rows.cuh"

namespace longstream::cuda {

inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeThreads = kDecodeWarps * kWarp;
inline constexpr int kPartRows = kMaxRecurrenceGrid / kDecodeWarps;
inline constexpr int kEarlyKeys = 16;  // keys of a warp whose state elements are loaded first

// kWidth: how many columns a lane has.
template <int kWidth, bool kGated>
class DecodeRow {
 public:
  static constexpr int kColumns = kWidth * kWarp;

  struct Shared {
    float scores[kMaxRecurrenceGrid];
    float parts[kDecodeWarps][kColumns];
    // After this struct lie the decayed query [Dk] and, if gated, ln F of each warp's rows [8, Dk].
  };
  static size_t SharedBytes(int64_t key_dim) {
    return sizeof(Shared) +
           static_cast<size_t>(key_dim * (kGated ? 1 + kDecodeWarps : 1)) * sizeof(float);
  }

  __device__ DecodeRow(const LinearRecurrenceArgs& args, const SequenceRows& sequence, int64_t head,
                       int64_t slice, Shared& shared)
      : args_(args),
        rows_(args, sequence, head),
        head_(head),
        t_(sequence.first_row),
        line_(rows_.line()),
        last_(static_cast<int>(sequence.first_position - line_)),
        first_column_(slice * kColumns),
        shared_(shared),
        query_(reinterpret_cast<float*>(&shared + 1)),
        key_dim_(static_cast<int>(rows_.key_dim())),
        value_dim_(static_cast<int>(rows_.value_dim())),
        state_(rows_.State()),
        cached_keys_(rows_.Memory(args.cache.keys) + rows_.kv_head() * key_dim_),
        cached_values_(rows_.Memory(args.cache.values) + rows_.kv_head() * value_dim_),
        step_key_(rows_.Key(line_ + last_)),
        step_value_(rows_.Value(line_ + last_)),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp) {}

  __device__ void Run() {
    const int dim = key_dim_;
    const int keys = (dim + kDecodeWarps - 1) / kDecodeWarps;
    const int first_key = warp_ * keys, last_key = min(first_key + keys, dim);
    PrefetchRows();
    float state[kEarlyKeys][kWidth];
#pragma unroll
    for (int i = 0; i < kEarlyKeys; ++i) LoadState(first_key + i, last_key, state[i]);
    Score();
    float values[kPartRows][kWidth];
#pragma unroll
    for (int i = 0; i < kPartRows; ++i) LoadValues(warp_ * kPartRows + i, values[i]);
    __syncthreads();

    float sums[kWidth] = {};
#pragma unroll
    for (int i = 0; i < kEarlyKeys; ++i) {
      if (first_key + i < last_key) Add(query_[first_key + i], state[i], sums);
    }
    for (int i = first_key + kEarlyKeys; i < last_key; ++i) {
      LoadState(i, last_key, state[0]);
      Add(query_[i], state[0], sums);
    }
#pragma unroll
    for (int i = 0; i < kPartRows; ++i) {
      const int r = warp_ * kPartRows + i;
      if (r <= last_) Add(shared_.scores[r], values[i], sums);
    }
    Answer(sums);
    Remember();
  }

 private:
  // A column of the lane; the value's last column instead of one beyond it.
  __device__ int ColumnOf(int c) const {
    return min(static_cast<int>(first_column_) + c * kWarp + lane_, value_dim_ - 1);
  }
  // The key [Dk] and the value [Dv] of the block's row r; those of the last row for later rows.
  // Rows of earlier steps are in the cache, the last row is the step's.
  __device__ __forceinline__ const float* KeyOf(int r) const {
    return r < last_ ? cached_keys_ + r * (args_.cache.num_kv_heads * key_dim_) : step_key_;
  }
  __device__ __forceinline__ const float* ValueOf(int r) const {
    return r < last_ ? cached_values_ + r * (args_.cache.num_kv_heads * value_dim_) : step_value_;
  }

  // Loads the elements of the state for one key element. A key element from `end` on is replaced by
  // the last one before it. Its result is not used, and no load has to wait for a comparison.
  __device__ __forceinline__ void LoadState(int key, int end, float (&to)[kWidth]) const {
    const float* const row = state_ + min(key, end - 1) * value_dim_;
#pragma unroll
    for (int c = 0; c < kWidth; ++c) to[c] = row[ColumnOf(c)];
  }
  // Prefetches the keys and values of the warp's rows into L2, which needs no registers.
  __device__ __forceinline__ void PrefetchRows() const {
    constexpr int kLine = kPrefetchLine / static_cast<int>(sizeof(float));
    const int first = static_cast<int>(first_column_);
    for (int i = 0; i < kPartRows; ++i) {
      const int r = warp_ * kPartRows + i;
      if (r > last_) break;
      for (int k = lane_ * kLine; k < key_dim_; k += kWarp * kLine) {
        Prefetch(KeyOf(r) + k);
      }
      const int column = first + lane_ * kLine;
      if (column < min(first + kColumns, value_dim_)) Prefetch(ValueOf(r) + column);
    }
  }
  __device__ __forceinline__ void LoadValues(int r, float (&to)[kWidth]) const {
    const float* const row = ValueOf(r);
#pragma unroll
    for (int c = 0; c < kWidth; ++c) to[c] = row[ColumnOf(c)];
  }
  static __device__ __forceinline__ void Add(float weight, const float (&row)[kWidth],
                                             float (&sums)[kWidth]) {
#pragma unroll
    for (int c = 0; c < kWidth; ++c) sums[c] = __fmaf_rn(weight, row[c], sums[c]);
  }

  // Computes the scores of the warp's rows; the first warp also computes the decayed query. If
  // gated, all warps first compute ln F of their rows. Then each knows the decay behind its last
  // row, and all can go back through their rows at once.
  __device__ __forceinline__ void Score() {
    const int dim = key_dim_;
    const int first = warp_ * kPartRows;
    const float* q = static_cast<const float*>(args_.q.data) + t_ * args_.q.stride + head_ * dim;
    float* logs = query_ + dim;
    if constexpr (kGated) {
      for (int i = lane_; i < dim; i += kWarp) {
        float sum = 0.0f;
#pragma unroll
        for (int r = kPartRows - 1; r >= 0; --r) sum += LogGate(first + r, i);
        logs[warp_ * dim + i] = sum;
      }
      __syncthreads();
    }
    float scores[kPartRows] = {};
    for (int i = lane_; i < dim; i += kWarp) {
      const float element = q[i];
      float log = 0.0f;
      if constexpr (kGated) {
        for (int part = kDecodeWarps - 1; part > warp_; --part) log += logs[part * dim + i];
      }
#pragma unroll
      for (int r = kPartRows - 1; r >= 0; --r) {
        const float key = KeyOf(first + r)[i];
        scores[r] = __fmaf_rn(kGated ? element * expf(log) : element, key, scores[r]);
        if constexpr (kGated) log += LogGate(first + r, i);
      }
      if (warp_ == 0) query_[i] = element * (kGated ? expf(log) : FixedDecay(last_ + 1));
    }
#pragma unroll
    for (int r = 0; r < kPartRows; ++r) {
      const float score = WarpSum(scores[r]);
      if (lane_ == 0 && first + r <= last_) {
        shared_.scores[first + r] = kGated ? score : score * FixedDecay(last_ - first - r);
      }
    }
  }
  __device__ float LogGate(int r, int64_t i) const {
    return r <= last_ ? rows_.LogGate(line_ + r, i) : 0.0f;
  }
  __device__ float FixedDecay(int rows) const {
    return expf(static_cast<float>(rows) * rows_.FixedLogDecay());
  }

  __device__ __forceinline__ void Answer(const float (&sums)[kWidth]) {
#pragma unroll
    for (int c = 0; c < kWidth; ++c) shared_.parts[warp_][c * kWarp + lane_] = sums[c];
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    const int64_t column = first_column_ + i;
    if (i >= kColumns || column >= rows_.value_dim()) return;
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < kDecodeWarps; ++part) sum = __fadd_rn(sum, shared_.parts[part][i]);
    static_cast<float*>(
        args_.out.data)[t_ * args_.out.stride + head_ * rows_.value_dim() + column] =
        args_.scale * sum;
  }

  // Stores the step's row in the cache. The thread block of each slice stores the slice's values;
  // that of the first slice also stores the key and the gates. No kernel reads the row that is
  // replaced, and all thread blocks read the step's own row from the step's matrices.
  __device__ __forceinline__ void Remember() const {
    const RecurrentCache& cache = args_.cache;
    const int64_t position = line_ + last_;
    const auto store = [&](std::byte* base, int64_t heads, int64_t head, int64_t dim, int64_t first,
                           int64_t count, const auto& element) {
      float* to = rows_.Memory(base) + (last_ * heads + head) * dim;
      for (int64_t i = first + threadIdx.x; i < min(first + count, dim); i += kDecodeThreads) {
        to[i] = element(i);
      }
    };
    const int64_t dim = cache.key_dim;
    if (rows_.leads()) {
      const float* v = rows_.Value(position);
      store(cache.values, cache.num_kv_heads, rows_.kv_head(), cache.value_dim, first_column_,
            kColumns, [&](int64_t i) { return v[i]; });
    }
    if (first_column_ > 0) return;
    if (rows_.leads()) {
      const float* k = rows_.Key(position);
      store(cache.keys, cache.num_kv_heads, rows_.kv_head(), dim, 0, dim,
            [&](int64_t i) { return k[i]; });
    }
    if constexpr (kGated) {
      store(cache.gates, cache.num_heads, head_, dim, 0, dim,
            [&](int64_t i) { return rows_.LogGate(position, i); });
    }
  }

  const LinearRecurrenceArgs& args_;
  const RecurrenceRows rows_;
  const int64_t head_;
  const int64_t t_;     // the step's row
  const int64_t line_;  // position of the block's row 0
  const int last_;      // the row's number in the block
  const int64_t first_column_;
  Shared& shared_;
  float* query_;
  const int key_dim_;
  const int value_dim_;
  const float* const state_;          // [Dk, Dv]
  const float* const cached_keys_;    // the head's key in the cache's row 0
  const float* const cached_values_;  // the head's value in the cache's row 0
  const float* const step_key_;       // [Dk], of the step's row
  const float* const step_value_;     // [Dv], of the step's row
  const int warp_;
  const int lane_;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_
