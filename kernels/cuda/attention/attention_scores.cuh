// The scores of a warp's rows: cap, ALiBi, mask, and the online softmax. This code is the same
// whether tensor cores or FMAs compute the scores and the sums of values.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

// Tiles of 16 rows and 8 columns: lane 4 g + t holds rows g and g + 8 at the columns 2t and 2t + 1.
template <int kRowTiles, int kColumnTiles>
using Fragments = float[kRowTiles][kColumnTiles][4];

inline constexpr float kHiddenScore = -std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.4426950408889634f;

// 2^x with a relative error of 2^-22. The result is exactly 1 for x = 0, and 0 for x = -infinity.
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
  int slice = 0;  // slice of the values
  int first_head = 0;
  int num_heads = 0;
  int first_position = 0;
  int num_positions = 0;
  int64_t first_row = 0;  // row of the step
  int begin = 0;          // keys outside [begin, end) are not visited
  int end = 0;

  __device__ int count() const { return num_heads * num_positions; }
  __device__ int PositionOf(int row) const { return first_position + row / num_heads; }
  __device__ int last_position() const { return first_position + num_positions - 1; }
};

// The sums of a warp's rows. Row g + 8 h of fragment tile r is in [r][h].
template <typename Shape>
struct RowSums {
  Fragments<Shape::kRowTiles, Shape::kDimTiles> weighted;  // sum of weight * value
  float max[Shape::kRowTiles][2];                          // largest of the scores, not yet scaled
  float sum[Shape::kRowTiles][2];  // sum of the weights that this lane holds
};

// Shape: a warp has kRowTiles tiles of rows, kKeyTiles tiles of keys and kDimTiles tiles of the
// head. kDecode: all warps of the block have the same rows. kSplitQueries: row g + 8 is the rest of
// row g after rounding (attention_product.cuh).
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
  // The row of the block's tile that is row 8 * half + g of the warp's fragment tile r.
  __device__ int RowOf(int r, int half) const { return first_row_ + r * 16 + half * 8 + lane_ / 4; }

 protected:
  // Caps the scores of the keys from `begin` on, applies ALiBi, and hides keys that a row does not
  // see. The scores are not yet scaled; Softmax scales them.
  __device__ void Adjust(const KeyRange& range, int begin, Scores& scores) const {
    if (attention_.softcap > 0.0f) CapScores(scores);
    if (attention_.alibi_slopes != nullptr) SubtractDistances(begin, scores);
    const int last = begin + Shape::kWarpKeys - 1;
    const bool seen_by_all = begin >= max(rows_.begin, last_position_ - range.back) &&
                             last <= min(rows_.end - 1, first_position_ - range.front);
    if (!seen_by_all) Mask(range, begin, scores);
  }

  // Turns scores into weights 2^(scale (score - max)). Sets `corrections` to the factors by which
  // Rescale must multiply the weighted sums of earlier keys. A row that sees none of the keys keeps
  // its sums to the bit.
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
        // `base` is finite even if no key has been seen, so that no difference below is NaN.
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

  // Multiplies the weighted sums by `corrections`. This costs nothing for most blocks of keys,
  // because they bring no new maximum.
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
  const float scale_;  // makes 2^(scale_ x) the weight of a score x
  const int warp_;
  const int lane_;
  const int first_row_;  // first row of the warp in the tile
  int first_position_;   // position of the warp's first row
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

  // Caps scores that are not yet scaled.
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

  // Subtracts the distances of ALiBi from scores that are not yet scaled: (slope / scale) (p - j)
  // for key j and a row at position p.
  __device__ void SubtractDistances(int begin, Scores& scores) const {
    constexpr int kHalves = Shape::kSplitQueries ? 1 : 2;
#pragma unroll
    for (int r = 0; r < Shape::kRowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        // Rows after the last one take the slope of some head; their results are dropped.
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
        // Rows after the last one are computed as if they existed; their results are dropped.
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
