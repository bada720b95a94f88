// Linear recurrence of decode rows. A thread block computes a row, a head and a slice of value
// columns. Warp w takes the w-th eighth of the key elements in the product with the state, and rows
// 8 w ... 8 w + 7 of the block in all sums over rows. So the order of every sum follows from the
// position.
//
// Each thread loads its elements of the state before anything is computed: 16 loads of 4 bytes for
// each of its columns. With 64 columns a thread block has 32 KiB in flight, and two blocks run on
// an SM. That is almost three times what keeps memory busy: its latency times its bandwidth is 23
// KiB for each SM. The scores with the keys are computed while the state is loaded.
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/primitives/warp.cuh"
#include "kernels/cuda/recurrence/recurrence_rows.cuh"

namespace longstream::cuda {

inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeThreads = kDecodeWarps * kWarp;
inline constexpr int kPartRows = kMaxRecurrenceGrid / kDecodeWarps;
inline constexpr int kEarlyKeys = 16;  // keys of a warp whose state elements are loaded first

// kWidth: how many columns a lane has.
template <int kWidth>
class DecodeRow {
 public:
  static constexpr int kColumns = kWidth * kWarp;

  struct Shared {
    float scores[kMaxRecurrenceGrid];
    float parts[kDecodeWarps][kColumns];
    // After this struct lie the decayed query [Dk] and, if gated, ln F of each warp's rows [8, Dk].
  };
  static size_t SharedBytes(int64_t key_dim, bool gated) {
    return sizeof(Shared) +
           static_cast<size_t>(key_dim * (gated ? 1 + kDecodeWarps : 1)) * sizeof(float);
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
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp) {}

  __device__ void Run() {
    const int64_t dim = rows_.key_dim();
    const int64_t keys = (dim + kDecodeWarps - 1) / kDecodeWarps;
    const int64_t first_key = warp_ * keys, last_key = min(first_key + keys, dim);
    float state[kEarlyKeys][kWidth];
#pragma unroll
    for (int i = 0; i < kEarlyKeys; ++i) LoadState(first_key + i, last_key, state[i]);
    if (rows_.gated()) {
      Score<true>();
    } else {
      Score<false>();
    }
    float values[kPartRows][kWidth];
#pragma unroll
    for (int i = 0; i < kPartRows; ++i) LoadValues(warp_ * kPartRows + i, values[i]);
    __syncthreads();

    float sums[kWidth] = {};
#pragma unroll
    for (int i = 0; i < kEarlyKeys; ++i) {
      if (first_key + i < last_key) Add(query_[first_key + i], state[i], sums);
    }
    for (int64_t i = first_key + kEarlyKeys; i < last_key; ++i) {
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
  __device__ int64_t ColumnOf(int c) const { return first_column_ + c * kWarp + lane_; }

  // Loads the elements of the state for one key element. A key element from `end` on is replaced by
  // the last one before it. Its result is not used, and no load has to wait for a comparison.
  __device__ __forceinline__ void LoadState(int64_t key, int64_t end, float (&to)[kWidth]) const {
    const float* row = rows_.State() + min(key, end - 1) * rows_.value_dim();
#pragma unroll
    for (int c = 0; c < kWidth; ++c) to[c] = row[min(ColumnOf(c), rows_.value_dim() - 1)];
  }
  __device__ __forceinline__ void LoadValues(int r, float (&to)[kWidth]) const {
    const float* row = rows_.Value(line_ + min(r, last_));
#pragma unroll
    for (int c = 0; c < kWidth; ++c) to[c] = row[min(ColumnOf(c), rows_.value_dim() - 1)];
  }
  static __device__ __forceinline__ void Add(float weight, const float (&row)[kWidth],
                                             float (&sums)[kWidth]) {
#pragma unroll
    for (int c = 0; c < kWidth; ++c) sums[c] = __fmaf_rn(weight, row[c], sums[c]);
  }

  // Computes the scores of the warp's rows; the first warp also computes the decayed query. If
  // gated, all warps first compute ln F of their rows. Then each knows the decay behind its last
  // row, and all can go back through their rows at once.
  template <bool kGated>
  __device__ __forceinline__ void Score() {
    const int64_t dim = rows_.key_dim();
    const int first = warp_ * kPartRows;
    const float* q = static_cast<const float*>(args_.q.data) + t_ * args_.q.stride + head_ * dim;
    float* logs = query_ + dim;
    if constexpr (kGated) {
      for (int64_t i = lane_; i < dim; i += kWarp) {
        float sum = 0.0f;
#pragma unroll
        for (int r = kPartRows - 1; r >= 0; --r) sum += LogGate(first + r, i);
        logs[warp_ * dim + i] = sum;
      }
      __syncthreads();
    }
    float scores[kPartRows] = {};
    for (int64_t i = lane_; i < dim; i += kWarp) {
      const float element = q[i];
      float log = 0.0f;
      if constexpr (kGated) {
        for (int part = kDecodeWarps - 1; part > warp_; --part) log += logs[part * dim + i];
      }
#pragma unroll
      for (int r = kPartRows - 1; r >= 0; --r) {
        const float k = first + r <= last_ ? rows_.Key(line_ + first + r)[i] : 0.0f;
        scores[r] = __fmaf_rn(kGated ? element * expf(log) : element, k, scores[r]);
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
    if (rows_.gated()) {
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
  const int warp_;
  const int lane_;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_
