// The two products of attention. One warp computes them over rows, keys and values in shared
// memory:
//
//   scores[r, j] = q[r] . key[j]          sums[r, d] += sum_j weights[r, j] value[j, d]
//
// Both results are fragments as in mma.cuh, also if FMAs compute them.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/attention_scores.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/mma.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

// Products with bf16 keys and values on the tensor cores.
//
// kSplit: row g of a tile is a query rounded to bf16, and row g + 8 is the rest of that query,
// rounded as well. The sum of both products has a relative error of about 2^-17 compared with f32.
// The split costs nothing, because a decode step has at most 8 heads for the 16 rows of a tile.
template <bool kSplit>
struct TensorProduct {
  // `q` [16 * kRowTiles, kQueryStride] bf16, `keys` [8 * kKeyTiles, kStride].
  template <int kDim, int kQueryStride, int kStride, int kRowTiles, int kKeyTiles>
  static __device__ __forceinline__ void Score(const BF16* q, const BF16* keys,
                                               Fragments<kRowTiles, kKeyTiles>& scores) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const BF16* q_row = q + lane % 16 * kQueryStride + lane / 16 * 8;
    const BF16* key_row = keys + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      uint32_t a[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) LoadMatrices(a[r], q_row + r * 16 * kQueryStride + d);
#pragma unroll
      for (int j = 0; j < kKeyTiles; j += 2) {
        uint32_t b[4];
        LoadMatrices(b, key_row + j * 8 * kStride + d);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          MultiplyAdd(scores[r][j], a[r], {b[0], b[1]});
          MultiplyAdd(scores[r][j + 1], a[r], {b[2], b[3]});
        }
      }
    }
    if constexpr (kSplit) {
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j) {
        scores[0][j][0] += scores[0][j][2];
        scores[0][j][1] += scores[0][j][3];
      }
    }
  }

  // `values` [8 * kKeyTiles, kStride].
  template <int kDim, int kStride, int kRowTiles, int kKeyTiles>
  static __device__ __forceinline__ void Weigh(const Fragments<kRowTiles, kKeyTiles>& weights,
                                               const BF16* values,
                                               Fragments<kRowTiles, kDim / 8>& sums) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const BF16* value_row = values + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < kKeyTiles; j += 2) {
      uint32_t a[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        RoundWeights(weights[r][j], a[r][0], a[r][1]);
        RoundWeights(weights[r][j + 1], a[r][2], a[r][3]);
      }
#pragma unroll
      for (int d = 0; d < kDim / 8; d += 2) {
        uint32_t b[4];
        LoadMatricesTransposed(b, value_row + j * 8 * kStride + d * 8);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          MultiplyAdd(sums[r][d], a[r], {b[0], b[1]});
          MultiplyAdd(sums[r][d + 1], a[r], {b[2], b[3]});
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ void RoundWeights(const float (&weights)[4], uint32_t& upper,
                                                      uint32_t& lower) {
    upper = PackBF16(weights[0], weights[1]);
    lower = kSplit ? PackBF16(weights[0] - LowBF16(upper), weights[1] - HighBF16(upper))
                   : PackBF16(weights[2], weights[3]);
  }
};

// Two or four elements of a row in shared memory. The row is aligned to two or four elements.
__device__ __forceinline__ float2 LoadTwo(const float* row) {
  return *reinterpret_cast<const float2*>(row);
}
__device__ __forceinline__ float2 WidenTwo(uint32_t pair) {
  return make_float2(Widen(F16{static_cast<uint16_t>(pair)}),
                     Widen(F16{static_cast<uint16_t>(pair >> 16)}));
}
__device__ __forceinline__ float2 LoadTwo(const F16* row) {
  return WidenTwo(*reinterpret_cast<const uint32_t*>(row));
}
__device__ __forceinline__ float4 LoadFour(const float* row) {
  return *reinterpret_cast<const float4*>(row);
}
__device__ __forceinline__ float4 LoadFour(const F16* row) {
  const uint2 bits = *reinterpret_cast<const uint2*>(row);
  const float2 low = WidenTwo(bits.x), high = WidenTwo(bits.y);
  return make_float4(low.x, low.y, high.x, high.y);
}

// Products with f32 and f16 keys and values by f32 FMAs. Each lane computes its elements of a
// fragment.
template <typename T>
struct FmaProduct {
  // `q` [16, kQueryStride] f32, `keys` [8 * kKeyTiles, kStride].
  template <int kDim, int kQueryStride, int kStride, int kRowTiles, int kKeyTiles>
  static __device__ __forceinline__ void Score(const float* q, const T* keys,
                                               Fragments<kRowTiles, kKeyTiles>& scores) {
    static_assert(kRowTiles == 1);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const float* q_row = q + lane / 4 * kQueryStride;
    const T* key_row = keys + lane % 4 * 2 * kStride;
#pragma unroll 4
    for (int d = 0; d < kDim; d += 4) {
      const float4 upper = LoadFour(q_row + d);
      const float4 lower = LoadFour(q_row + 8 * kQueryStride + d);
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const float4 key = LoadFour(key_row + (j * 8 + column) * kStride + d);
          scores[0][j][column] = DotAdd(upper, key, scores[0][j][column]);
          scores[0][j][column + 2] = DotAdd(lower, key, scores[0][j][column + 2]);
        }
      }
    }
  }

  // `values` [8 * kKeyTiles, kStride].
  template <int kDim, int kStride, int kRowTiles, int kKeyTiles>
  static __device__ __forceinline__ void Weigh(const Fragments<kRowTiles, kKeyTiles>& weights,
                                               const T* values,
                                               Fragments<kRowTiles, kDim / 8>& sums) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
      for (int key = 0; key < 8; ++key) {
        // Of the four lanes that share the rows, lane key / 2 holds the weights of this key.
        const int from = lane / 4 * 4 + key / 2;
        const float upper = __shfl_sync(kAllLanes, weights[0][j][key % 2], from);
        const float lower = __shfl_sync(kAllLanes, weights[0][j][key % 2 + 2], from);
        const T* value = values + (j * 8 + key) * kStride + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < kDim / 8; ++d) {
          const float2 pair = LoadTwo(value + d * 8);
          sums[0][d][0] = __fmaf_rn(upper, pair.x, sums[0][d][0]);
          sums[0][d][1] = __fmaf_rn(upper, pair.y, sums[0][d][1]);
          sums[0][d][2] = __fmaf_rn(lower, pair.x, sums[0][d][2]);
          sums[0][d][3] = __fmaf_rn(lower, pair.y, sums[0][d][3]);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ float DotAdd(const float4& x, const float4& y, float sum) {
    sum = __fmaf_rn(x.x, y.x, sum);
    sum = __fmaf_rn(x.y, y.y, sum);
    sum = __fmaf_rn(x.z, y.z, sum);
    return __fmaf_rn(x.w, y.w, sum);
  }
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_PRODUCT_CUH_
