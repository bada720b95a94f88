// Linear recurrence of decode rows. A thread block computes a row, a head and a slice of value
// columns. Warp w takes the w-th eighth of the key elements in the product with the state, and rows
// 8 w ... 8 w + 7 of the block in all sums over rows.
//
// A lane has four neighbouring columns, which it loads together. If a slice has 128 columns, a warp
// reads one row of the state at a time; if it has 32, a warp reads four rows at a time, eight lanes
// each. In both cases a warp adds up every fourth row for itself and then adds these four sums in
// the same way, so a column has the same bits in a slice of either size. The order of every sum
// follows from the position.
//
// Before anything is computed, the warps prefetch their rows' values into L2, and each thread loads
// its elements of the state and of keys. With 128 columns and 128 key elements a thread block has
// 64 KiB of the state and up to 64 KiB of keys and values in flight, and two blocks run on an SM.
//
// An SM has little more time for a block than these bytes take, so addresses must cost few
// instructions: rows beyond the last one and columns beyond the value are replaced by valid ones
// whose results are not used, instead of by branches, and offsets have 32 bits. (With loads of 4
// bytes instead of 16, a warp executed some 2200 instructions for 64 columns, and an H100 reached
// 0.45 of the speed of a copy.)
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/warp.cuh"
#include "kernels/cuda/recurrence/recurrence_rows.cuh"

namespace longstream::cuda {

inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeThreads = kDecodeWarps * kWarp;
inline constexpr int kPartRows = kMaxRecurrenceGrid / kDecodeWarps;
inline constexpr int kEarlyKeys = 16;  // key elements of a warp whose state is loaded at a time
inline constexpr int kLaneColumns = 4;

// kRowLanes: the lanes that read a row of the state. kVectors: rows and their parts are aligned to
// 16 bytes, and numbers of elements are multiples of four.
template <int kRowLanes, bool kGated, bool kVectors>
class DecodeRow {
 public:
  static constexpr int kColumns = kLaneColumns * kRowLanes;

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
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        group_(lane_ / kRowLanes),
        column_(static_cast<int>(first_column_) + lane_ % kRowLanes * kLaneColumns) {}

  __device__ void Run() {
    const int dim = key_dim_;
    const int keys = (dim + kDecodeWarps - 1) / kDecodeWarps;
    const int first_key = warp_ * keys, last_key = min(first_key + keys, dim);
    const int first_row = warp_ * kPartRows;
    const bool has_rows = first_row <= last_;
    if (has_rows) PrefetchValues();
    Four state[kLoads];
    LoadState(first_key, last_key, state);
    Score();
    Four values[kRowLoads];
    if (has_rows) {
#pragma unroll
      for (int i = 0; i < kRowLoads; ++i) {
        const int r = min(first_row + i * kRowsAtOnce + group_, last_);
        values[i] = LoadFour(ValueOf(r), column_, value_dim_);
      }
    }
    __syncthreads();

    Four sums[kSums] = {};
    for (int first = first_key; first < last_key; first += kEarlyKeys) {
      if (first > first_key) LoadState(first, last_key, state);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int key = first + i * kRowsAtOnce + group_;
        if (key < last_key) Add(query_[key], state[i], sums[i % kSums]);
      }
    }
    if (has_rows) {
#pragma unroll
      for (int i = 0; i < kRowLoads; ++i) {
        const int r = first_row + i * kRowsAtOnce + group_;
        if (r <= last_) Add(shared_.scores[r], values[i], sums[i % kSums]);
      }
    }
    Answer(sums);
    Remember();
  }

 private:
  static constexpr int kRowsAtOnce = kWarp / kRowLanes;
  static constexpr int kLoads = kEarlyKeys / kRowsAtOnce;
  static constexpr int kRowLoads = kPartRows / kRowsAtOnce;
  // A lane's sums of a column; a column has four in a warp.
  static constexpr int kSums = 4 / kRowsAtOnce;
  static_assert(kRowsAtOnce == 1 || kRowsAtOnce == 4);

  struct Four {
    float x[kLaneColumns];
  };

  // The key [Dk] and the value [Dv] of the block's row r, which is at most the last row. Rows of
  // earlier steps are in the cache, the last row is the step's.
  __device__ __forceinline__ const float* KeyOf(int r) const {
    return r < last_ ? cached_keys_ + r * (args_.cache.num_kv_heads * key_dim_) : step_key_;
  }
  __device__ __forceinline__ const float* ValueOf(int r) const {
    return r < last_ ? cached_values_ + r * (args_.cache.num_kv_heads * value_dim_) : step_value_;
  }

  // Loads elements i ... i + 3 of a row; elements beyond the row are replaced by its last ones.
  static __device__ __forceinline__ Four LoadFour(const float* row, int i, int dim) {
    Four four;
    if constexpr (kVectors) {
      const float4 loaded = *reinterpret_cast<const float4*>(row + min(i, dim - kLaneColumns));
      memcpy(four.x, &loaded, sizeof(loaded));
    } else {
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c) four.x[c] = row[min(i + c, dim - 1)];
    }
    return four;
  }
  // Loads the lane's elements of the state for the key elements from `first` on. A key element from
  // `end` on is replaced by the last one before it.
  __device__ __forceinline__ void LoadState(int first, int end, Four (&to)[kLoads]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int key = min(first + i * kRowsAtOnce + group_, end - 1);
      to[i] = LoadFour(state_ + key * value_dim_, column_, value_dim_);
    }
  }
  // Prefetches the values of the warp's rows into L2, which needs no registers.
  __device__ __forceinline__ void PrefetchValues() const {
    constexpr int kLine = kPrefetchLine / static_cast<int>(sizeof(float));
    constexpr int kLines = kColumns / kLine;  // lines of a row
    const int column = static_cast<int>(first_column_) + lane_ % kLines * kLine;
#pragma unroll
    for (int i = 0; i < kPartRows; i += kWarp / kLines) {
      const int r = warp_ * kPartRows + i + lane_ / kLines;
      const bool is_own = lane_ / kLines < kPartRows;
      if (is_own && r <= last_ && column < value_dim_) Prefetch(ValueOf(r) + column);
    }
  }
  static __device__ __forceinline__ void Add(float weight, const Four& row, Four& sums) {
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) sums.x[c] = __fmaf_rn(weight, row.x[c], sums.x[c]);
  }

  // Computes the scores of the warp's rows; the first warp also computes the decayed query. If
  // gated, all warps first compute ln F of their rows. Then each knows the decay
  // behind its last row, and all can go back through their rows at once.
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
    if (first > last_ && warp_ > 0) return;
    float scores[kPartRows] = {};
    for (int i = lane_ * kLaneColumns; i < dim; i += kWarp * kLaneColumns) {
      Four element = LoadFour(q, i, dim);
      Four keys[kPartRows];
#pragma unroll
      for (int r = 0; r < kPartRows; ++r) keys[r] = LoadFour(KeyOf(min(first + r, last_)), i, dim);
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c) {
        if (i + c >= dim) break;
        float log = 0.0f;
        if constexpr (kGated) {
          for (int part = kDecodeWarps - 1; part > warp_; --part) log += logs[part * dim + i + c];
        }
#pragma unroll
        for (int r = kPartRows - 1; r >= 0; --r) {
          const float query = kGated ? element.x[c] * expf(log) : element.x[c];
          scores[r] = __fmaf_rn(query, keys[r].x[c], scores[r]);
          if constexpr (kGated) log += LogGate(first + r, i + c);
        }
        if (warp_ == 0) {
          query_[i + c] = element.x[c] * (kGated ? expf(log) : FixedDecay(last_ + 1));
        }
      }
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

  __device__ __forceinline__ void Answer(const Four (&sums)[kSums]) {
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) {
      float sum = 0.0f;
      if constexpr (kSums == 4) {
        sum =
            __fadd_rn(__fadd_rn(sums[0].x[c], sums[1].x[c]), __fadd_rn(sums[2].x[c], sums[3].x[c]));
      } else {
        sum = sums[0].x[c];
        sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, kRowLanes));
        sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 2 * kRowLanes));
      }
      if (group_ == 0) shared_.parts[warp_][lane_ * kLaneColumns + c] = sum;
    }
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
  const int group_;   // the number of the lane's row among those that the warp reads at a time
  const int column_;  // the lane's first column
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_RECURRENCE_DECODE_CUH_
