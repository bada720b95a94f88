// What a warp does with the scores of its rows, whichever way they and the sums of values are
// computed: cap, ALiBi, mask, and the online softmax.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

// Of 16 rows by 8 columns each: lane 4 g + t holds rows g and g + 8 at the columns 2t and 2t + 1.
template <int kRowTiles, int kColumnTiles>
using Fragments = float[kRowTiles][kColumnTiles][4];

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

// Shape: kRowTiles tiles of rows a warp, kKeyTiles of keys, kDimTiles of the head; kDecode: the
// rows of the warp are those of the block; kSplitQueries: row g + 8 is a part of row g
// (attention_product.cuh).
template <typename Shape>
class WarpRows {
 public:
  using Scores = Fragments<Shape::kRowTiles, Shape::kKeyTiles>;
  using Corrections = float[Shape::kRowTiles][2];

  __device__ WarpRows(const Attention& attention, const TileRows& rows)
      : attention_(attention),
        rows_(rows),
        scale_(attention.scale * kLog2E),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        first_row_(Shape::kDecode ? 0 : warp_ * Shape::kWarpRows) {
    Start();
  }

  __device__ RowSums<Shape>& sums() { return sums_; }
  // Row 8 * half + g of fragment tile r, in the tile.
  __device__ int RowOf(int r, int half) const { return first_row_ + r * 16 + half * 8 + lane_ / 4; }

 protected:
  // Scores of the keys from `begin` on, as they are before Softmax scales them: capped, with ALiBi,
  // hidden where a row does not see the key.
  __device__ void Adjust(const KeyRange& range, int begin, Scores& scores) const {
    if (attention_.softcap > 0.0f) CapScores(scores);
    if (attention_.alibi_slopes != nullptr) SubtractDistances(begin, scores);
    const int last = begin + Shape::kWarpKeys - 1;
    const bool seen_by_all = begin >= max(rows_.begin, last_position_ - range.back) &&
                             last <= min(rows_.end - 1, first_position_ - range.front);
    if (!seen_by_all) Mask(range, begin, scores);
  }

  // Scores become weights 2^(scale (score - max)); what Rescale is to multiply the weighted sums of
  // earlier keys by, corrections. A row that sees none of the keys keeps its sums to the bit.
  __device__ void Softmax(Scores& scores, Corrections& corrections) {
    constexpr int kHalves = Shape::kSplitQueries ? 1 : 2;
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
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
        corrections[r][half] = correction;
      }
      if constexpr (Shape::kSplitQueries) corrections[r][1] = corrections[r][0];
    }
  }

  // Most blocks of keys bring no new maximum.
  __device__ void Rescale(const Corrections& corrections) {
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
      const float upper = corrections[r][0], lower = corrections[r][1];
      if (__all_sync(kAllLanes, upper == 1.0f && lower == 1.0f)) continue;
#pragma unroll
      for (int d = 0; d < Shape::kDimTiles; ++d) {
        sums_.weighted[r][d][0] *= upper;
        sums_.weighted[r][d][1] *= upper;
        sums_.weighted[r][d][2] *= lower;
        sums_.weighted[r][d][3] *= lower;
      }
    }
  }

  const Attention& attention_;
  const TileRows& rows_;
  const float scale_;  // of a score, so that 2^x is the weight
  const int warp_;
  const int lane_;
  const int first_row_;  // of the warp, in the tile
  int first_position_;   // of the warp's rows
  int last_position_;
  RowSums<Shape> sums_;

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
    first_position_ = rows_.PositionOf(Shape::kDecode ? 0 : first_row_);
    last_position_ = rows_.PositionOf(Shape::kDecode ? 0 : last_row);
  }

  // Scores as they are before Softmax scales them.
  __device__ void CapScores(Scores& scores) const {
    constexpr int kUsed = Shape::kSplitQueries ? 2 : 4;
    const float cap = attention_.score_cap, inverse = attention_.inverse_score_cap;
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
  __device__ void SubtractDistances(int begin, Scores& scores) const {
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

  __device__ void Mask(const KeyRange& range, int begin, Scores& scores) const {
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
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_
