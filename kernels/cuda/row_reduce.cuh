// Reductions over a row by a block, and the order in which the logits of a row stand.
#ifndef LONGSTREAM_KERNELS_CUDA_ROW_REDUCE_CUH_
#define LONGSTREAM_KERNELS_CUDA_ROW_REDUCE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/warp.cuh"

namespace longstream::cuda {

// As atomics and shuffles have it.
using Word64 = unsigned long long;  // NOLINT(google-runtime-int)

// A row's thread count: few for a small vocabulary. A function of the vocabulary alone.
inline constexpr int kSmallRowThreads = 128;
inline constexpr int kLargeRowThreads = 1024;
inline constexpr int64_t kSmallVocabulary = 4096;

// Greater for greater logits and, among equal ones, for lower ids; -0 equals 0. No two ids of a row
// have the same rank. REQUIRES: not NaN.
__device__ __forceinline__ Word64 RankOf(float logit, int64_t id) {
  const unsigned bits = __float_as_uint(logit + 0.0f);
  const unsigned ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return (Word64{ordered} << 32) | (0xffffffffu - static_cast<unsigned>(id));
}
__device__ __forceinline__ int32_t IdOf(Word64 rank) {
  return static_cast<int32_t>(0xffffffffu - static_cast<unsigned>(rank));
}

// Combines the threads' values in a fixed order; every thread gets the result. `scratch`:
// [kThreads / 32] shared, free for other use afterwards.
template <int kThreads, typename T, typename Combine>
__device__ __forceinline__ T ReduceRow(T value, T* scratch, const Combine& combine) {
  constexpr int kWarps = kThreads / kWarp;
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, lanes));
  }
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = scratch[0];
  for (int i = 1; i < kWarps; ++i) result = combine(result, scratch[i]);
  __syncthreads();
  return result;
}

template <int kThreads, typename T>
__device__ __forceinline__ T RowMax(T value, T* scratch) {
  return ReduceRow<kThreads>(value, scratch, [](T x, T y) { return x < y ? y : x; });
}
template <int kThreads, typename T>
__device__ __forceinline__ T RowSum(T value, T* scratch) {
  return ReduceRow<kThreads>(value, scratch, [](T x, T y) { return x + y; });
}

// mean(x) over k elements; 1 / sqrt(mean((x - mean)^2) + eps).
template <int kThreads>
__device__ __forceinline__ float RowMean(const float* x, int64_t k, float* scratch) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < k; i += kThreads) sum += x[i];
  return RowSum<kThreads>(sum, scratch) / static_cast<float>(k);
}
template <int kThreads>
__device__ __forceinline__ float RowInverseDeviation(const float* x, int64_t k, float mean,
                                                     float eps, float* scratch) {
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < k; i += kThreads) {
    const float deviation = x[i] - mean;
    squares = __fmaf_rn(deviation, deviation, squares);
  }
  const float sum = RowSum<kThreads>(squares, scratch);
  return 1.0f / sqrtf(sum / static_cast<float>(k) + eps);
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ROW_REDUCE_CUH_
