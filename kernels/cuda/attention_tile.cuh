// A tile of rows on its way through the keys that they see: what prefill and decode share.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_TILE_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_TILE_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cuda/attention_core.cuh"
#include "kernels/cuda/attention_product.cuh"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/warp.cuh"

namespace longstream::cuda {

inline constexpr float kHiddenScore = -std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.4426950408889634f;

// 2^x to 2^-22 of its value; exactly 1 for 0 and 0 for -infinity.
__device__ __forceinline__ float Exp2(float x) {
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

// The sizes of a block's tile for keys of type T and heads of width <= kMaxDim.
template <typename T, int kMaxDim, bool kIsDecode>
struct TileShape {
  using Element = T;
  static constexpr bool kTensor = std::is_same_v<T, BF16>;
  static constexpr bool kDecode = kIsDecode;
  static constexpr bool kSplitQueries = kTensor && kDecode;
  using Product = std::conditional_t<kTensor, TensorProduct<kSplitQueries>, FmaProduct<T>>;
  using Query = std::conditional_t<kTensor, BF16, float>;

  static constexpr int kDim = kMaxDim;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarp;
  // 32 rows a warp: one fragment of keys from shared memory then feeds two products, which keeps
  // the tensor cores busy. Wider heads, or scores by FMAs, leave registers for 16.
  static constexpr int kRowTiles = kTensor && !kDecode && kDim <= 128 ? 2 : 1;
  static constexpr int kWarpRows = kRowTiles * 16;
  static constexpr int kRows = kDecode ? kWarpRows : kWarps * kWarpRows;
  static constexpr int kMaxHeads = kSplitQueries ? 8 : 16;  // query heads of a block

  // Two stages of keys and values: 70 KiB for bf16 and D 128, so that 2 blocks of a prefill and 3
  // of a decode fit on an SM; never more than sm_80's 163 KiB. Of rows half as long a decode takes
  // twice as many keys: two blocks an SM, as a long row has at batch 1, then keep 64 KiB under way.
  static constexpr int kStageBytes = kDecode ? 32768 : 16384;
  static constexpr int kRowBytes = kDim * static_cast<int>(sizeof(T));
  static constexpr int kMaxKeys = kDecode && kRowBytes <= 128 ? 128 : 64;
  static constexpr int kKeys =
      kStageBytes / kRowBytes < kMaxKeys ? kStageBytes / kRowBytes : kMaxKeys;
  static constexpr int kWarpKeys = kDecode ? kKeys / kWarps : kKeys;
  static constexpr int kKeyTiles = kWarpKeys / 8;
  static constexpr int kDimTiles = kDim / 8;
  // 16 bytes more: the rows that one load of a warp reads then begin in different banks.
  static constexpr int kQueryStride = kDim + 16 / static_cast<int>(sizeof(Query));
  static constexpr int kStride = kDim + 16 / static_cast<int>(sizeof(T));

  struct Shared {
    const T* key_rows[kKeys];
    const T* value_rows[kKeys];
    T keys[2][kKeys * kStride];
    T values[2][kKeys * kStride];
    Query q[kRows * kQueryStride];
  };
};

// The rows of a block: `num_heads` query heads at each of `num_positions` positions. Row r is head
// first_head + r % num_heads at position first_position + r / num_heads.
struct TileRows {
  int kv_head = 0;
  int slice = 0;  // of the values
  int first_head = 0;
  int num_heads = 0;
  int first_position = 0;
  int num_positions = 0;
  int64_t first_row = 0;  // of the step
  int begin = 0;          // keys outside [begin, end) are not visited
  int end = 0;

  __device__ int count() const { return num_heads * num_positions; }
  __device__ int PositionOf(int row) const { return first_position + row / num_heads; }
  __device__ int last_position() const { return first_position + num_positions - 1; }
};

// What a warp keeps of its rows: of row g + 8 h of fragment tile r in [r][h].
template <typename Shape>
struct RowSums {
  Fragments<Shape::kRowTiles, Shape::kDimTiles> weighted;  // sum of weight * value
  float max[Shape::kRowTiles][2];                          // of the scores, not yet scaled
  float sum[Shape::kRowTiles][2];                          // of the weights that this lane holds
};

template <typename Shape>
class Tile {
 public:
  using T = typename Shape::Element;
  using Query = typename Shape::Query;

  __device__ Tile(const Attention& attention, const SequenceRows& sequence, const TileRows& rows,
                  typename Shape::Shared& shared)
      : attention_(attention),
        sequence_(sequence),
        rows_(rows),
        shared_(shared),
        scale_(attention.scale * kLog2E),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        first_row_(Shape::kDecode ? 0 : warp_ * Shape::kWarpRows) {
    Start();
  }

  // Visits all keys. All warps together.
  __device__ void Run() {
#pragma unroll 1
    for (int i = 0; i < attention_.num_ranges; ++i) RunRange(attention_.ranges[i]);
  }

  __device__ RowSums<Shape>& sums() { return sums_; }
  // Row 8 * half + g of fragment tile r, in the tile.
  __device__ int RowOf(int r, int half) const { return first_row_ + r * 16 + half * 8 + lane_ / 4; }

 private:
  __device__ void Start() {
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sums_.max[r][half] = kHiddenScore;
        sums_.sum[r][half] = 0.0f;
      }
#pragma unroll
      for (int d = 0; d < Shape::kDimTiles; ++d) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums_.weighted[r][d][i] = 0.0f;
      }
    }
    const int last_row = min(first_row_ + Shape::kWarpRows, rows_.count()) - 1;
    active_ = Shape::kDecode || first_row_ < rows_.count();
    first_position_ = rows_.PositionOf(Shape::kDecode ? 0 : first_row_);
    last_position_ = rows_.PositionOf(Shape::kDecode ? 0 : last_row);
  }

  // While a block of keys is computed, the next one is on its way, and the rows of the one after it
  // are looked up, each once for all threads.
  __device__ void RunRange(const KeyRange& range) {
    const int low = max(rows_.begin, rows_.first_position - range.back);
    const int high = min(rows_.end, rows_.last_position() - range.front + 1);
    if (low >= high) return;
    // Blocks of keys lie at absolute positions, so that a prefill row's sums do not depend on its
    // tile. A decode row has the tile for itself, and its blocks begin with its first key.
    int block = Shape::kDecode ? low : low / Shape::kKeys * Shape::kKeys;
    FindRows(range, block, low, high);
    __syncthreads();
    Fetch(0);
    __pipeline_commit();
    __syncthreads();
    FindRows(range, block + Shape::kKeys, low, high);
    LoadQueries(range.q);
    __syncthreads();
    for (int stage = 0; block < high; block += Shape::kKeys, stage ^= 1) {
      if (block + Shape::kKeys < high) Fetch(stage ^ 1);
      __pipeline_commit();
      __pipeline_wait_prior(1);
      __syncthreads();
      FindRows(range, block + 2 * Shape::kKeys, low, high);
      Visit(range, block, stage);
      __syncthreads();
    }
  }

  // Where the keys and values of a block lie; nowhere outside [low, high), so that they become zero
  // and a weight of 0 hides them.
  __device__ void FindRows(const KeyRange& range, int block, int low, int high) {
    const HeadRows<T> keys(attention_, range.keys, sequence_, rows_.kv_head);
    const int value_head = rows_.kv_head * attention_.value_slices + rows_.slice;
    const HeadRows<T> values(attention_, attention_.values, sequence_, value_head);
    for (int i = static_cast<int>(threadIdx.x); i < Shape::kKeys; i += Shape::kThreads) {
      const int position = block + i;
      const bool seen = low <= position && position < high;
      shared_.key_rows[i] = seen ? keys.Row(position) : nullptr;
      shared_.value_rows[i] = seen ? values.Row(position) : nullptr;
    }
  }

  __device__ void Fetch(int stage) {
    const int dim = attention_.head_dim;
    CopyRows<Shape::kThreads, Shape::kKeys, Shape::kDim, Shape::kStride>(shared_.key_rows, dim,
                                                                         shared_.keys[stage]);
    CopyRows<Shape::kThreads, Shape::kKeys, Shape::kDim, Shape::kStride>(shared_.value_rows, dim,
                                                                         shared_.values[stage]);
  }

  // The queries of all rows to shared memory; zero beyond the rows and beyond D.
  __device__ void LoadQueries(const Matrix& q) {
    const int dim = attention_.head_dim;
    constexpr int kHeadRows = Shape::kSplitQueries ? 8 : Shape::kRows;
    for (int row = warp_; row < kHeadRows; row += Shape::kWarps) {
      const bool exists = row < rows_.count();
      const float* from = static_cast<const float*>(q.data);
      if (exists) {
        from += (rows_.first_row + row / rows_.num_heads) * q.stride +
                int64_t{rows_.first_head + row % rows_.num_heads} * dim;
      }
      Query* to = shared_.q + row * Shape::kQueryStride;
#pragma unroll
      for (int i = 0; i < Shape::kDim / kWarp; ++i) {
        const int d = lane_ + i * kWarp;
        const float x = exists && d < dim ? from[d] : 0.0f;
        to[d] = RoundTo<Query>(x);
        if constexpr (Shape::kSplitQueries) {
          to[8 * Shape::kQueryStride + d] = RoundTo<Query>(x - Widen(to[d]));
        }
      }
    }
  }

  // The part of a block of keys that is this warp's.
  __device__ void Visit(const KeyRange& range, int block, int stage) {
    const int warp_key = Shape::kDecode ? warp_ * Shape::kWarpKeys : 0;
    const int begin = block + warp_key, last = begin + Shape::kWarpKeys - 1;
    const int lowest = max(rows_.begin, first_position_ - range.back);
    const int highest = min(rows_.end - 1, last_position_ - range.front);
    if (!active_ || last < lowest || begin > highest) return;
    Fragments<Shape::kRowTiles, Shape::kKeyTiles> scores = {};
    Shape::Product::template Score<Shape::kDim, Shape::kQueryStride, Shape::kStride>(
        shared_.q + first_row_ * Shape::kQueryStride,
        shared_.keys[stage] + warp_key * Shape::kStride, scores);
    if (attention_.softcap > 0.0f) CapScores(scores);
    if (attention_.alibi_slopes != nullptr) SubtractDistances(begin, scores);
    const bool seen_by_all = begin >= max(rows_.begin, last_position_ - range.back) &&
                             last <= min(rows_.end - 1, first_position_ - range.front);
    if (!seen_by_all) Mask(range, begin, scores);
    Softmax(scores);
    Shape::Product::template Weigh<Shape::kDim, Shape::kStride, Shape::kRowTiles, Shape::kKeyTiles>(
        scores, shared_.values[stage] + warp_key * Shape::kStride, sums_.weighted);
  }

  // Scores as they are before Softmax scales them.
  __device__ void CapScores(Fragments<Shape::kRowTiles, Shape::kKeyTiles>& scores) const {
    constexpr int kUsed = Shape::kSplitQueries ? 2 : 4;
    const float cap = attention_.softcap / attention_.scale;
    const float inverse = 1.0f / cap;
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
      for (int j = 0; j < Shape::kKeyTiles; ++j) {
#pragma unroll
        for (int i = 0; i < kUsed; ++i) scores[r][j][i] = cap * tanhf(scores[r][j][i] * inverse);
      }
    }
  }

  // ALiBi, as scores are before Softmax scales them: a row at position p loses slope / scale times
  // p - j with key j.
  __device__ void SubtractDistances(int begin,
                                    Fragments<Shape::kRowTiles, Shape::kKeyTiles>& scores) const {
    constexpr int kHalves = Shape::kSplitQueries ? 1 : 2;
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        // Rows beyond the last take some head's slope and are dropped.
        const int row = RowOf(r, half);
        const float slope = attention_.alibi_slopes[rows_.first_head + row % rows_.num_heads];
        const float per_key = slope / attention_.scale;
        const int first = begin + lane_ % 4 * 2 - rows_.PositionOf(Shape::kDecode ? 0 : row);
#pragma unroll
        for (int j = 0; j < Shape::kKeyTiles; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& score = scores[r][j][2 * half + i];
            score = __fmaf_rn(per_key, static_cast<float>(first + j * 8 + i), score);
          }
        }
      }
    }
  }

  __device__ void Mask(const KeyRange& range, int begin,
                       Fragments<Shape::kRowTiles, Shape::kKeyTiles>& scores) const {
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Rows beyond the last are computed as if they existed and dropped.
        const int position = rows_.PositionOf(Shape::kDecode ? 0 : RowOf(r, half));
        const int low = max(rows_.begin, position - range.back) - begin;
        const int high = min(rows_.end - 1, position - range.front) - begin;
#pragma unroll
        for (int j = 0; j < Shape::kKeyTiles; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int key = j * 8 + lane_ % 4 * 2 + i;
            if (key < low || key > high) scores[r][j][2 * half + i] = kHiddenScore;
          }
        }
      }
    }
  }

  // Scores become weights 2^(scale (score - max)); sums so far are brought to the new maximum. A
  // row that sees none of the keys keeps its sums to the bit.
  __device__ void Softmax(Fragments<Shape::kRowTiles, Shape::kKeyTiles>& scores) {
    constexpr int kHalves = Shape::kSplitQueries ? 1 : 2;
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
      float corrections[2] = {1.0f, 1.0f};
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        float largest = kHiddenScore;
#pragma unroll
        for (int j = 0; j < Shape::kKeyTiles; ++j) {
          largest = fmaxf(largest, fmaxf(scores[r][j][2 * half], scores[r][j][2 * half + 1]));
        }
        float& max_so_far = sums_.max[r][half];
        const float old_max = max_so_far;
        max_so_far = fmaxf(old_max, WarpMax<4>(largest));
        // Finite also where no key has been seen: no difference below is then NaN.
        const float base = max_so_far == kHiddenScore ? 0.0f : max_so_far;
        const float correction = Exp2((old_max - base) * scale_);
        float sum = sums_.sum[r][half] * correction;
#pragma unroll
        for (int j = 0; j < Shape::kKeyTiles; ++j) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[r][j][i] = Exp2((scores[r][j][i] - base) * scale_);
            sum += scores[r][j][i];
          }
        }
        sums_.sum[r][half] = sum;
        corrections[half] = correction;
      }
      Rescale(r, corrections[0], Shape::kSplitQueries ? corrections[0] : corrections[1]);
    }
  }

  // Most blocks of keys bring no new maximum.
  __device__ void Rescale(int r, float upper, float lower) {
    if (__all_sync(kAllLanes, upper == 1.0f && lower == 1.0f)) return;
#pragma unroll
    for (int d = 0; d < Shape::kDimTiles; ++d) {
      sums_.weighted[r][d][0] *= upper;
      sums_.weighted[r][d][1] *= upper;
      sums_.weighted[r][d][2] *= lower;
      sums_.weighted[r][d][3] *= lower;
    }
  }

  const Attention& attention_;
  const SequenceRows& sequence_;
  const TileRows& rows_;
  typename Shape::Shared& shared_;
  const float scale_;  // of a score, so that 2^x is the weight
  const int warp_;
  const int lane_;
  const int first_row_;  // of the warp, in the tile
  bool active_;          // the warp has rows
  int first_position_;   // of the warp's rows
  int last_position_;
  RowSums<Shape> sums_;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_TILE_CUH_
