// Functions with which the threads of a block go through a row or reduce it, and the order of a
// row's logits (RankOf). Blocks are one-dimensional.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_ROW_REDUCE_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_ROW_REDUCE_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

// The 64-bit type of atomics and shuffles.
using Word64 = unsigned long long;  // NOLINT(google-runtime-int)

// A number that is greater for greater logits and, among equal ones, for lower ids; -0 equals 0. No
// two ids of a row have the same rank. REQUIRES: logit is not NaN.
__device__ __forceinline__ Word64 RankOf(float logit, int64_t id) {
  const unsigned bits = __float_as_uint(logit + 0.0f);
  const unsigned ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return (Word64{ordered} << 32) | (0xffffffffu - static_cast<unsigned>(id));
}
__device__ __forceinline__ int32_t IdOf(Word64 rank) {
  return static_cast<int32_t>(0xffffffffu - static_cast<unsigned>(rank));
}
__device__ __forceinline__ float LogitOf(Word64 rank) {
  const auto ordered = static_cast<unsigned>(rank >> 32);
  return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}

// Elements that a thread loads before it uses the first of them. A thread that used each element at
// once would wait for every load, 0.15 us from L2 and 0.5 us from memory: a compiler moves no load
// before a store that may be to the same place.
inline constexpr int kLoadsAtOnce = 8;

// The most threads of a block that computes a row.
inline constexpr int kMaxRowThreads = 1024;

// The number of threads for a row, which depends on its size alone. If the block may have enough
// threads, each thread loads all of its elements at once.
inline unsigned RowThreads(int64_t size) {
  const int64_t warps = (size + kWarp * kLoadsAtOnce - 1) / (kWarp * kLoadsAtOnce);
  return static_cast<unsigned>(std::clamp<int64_t>(warps * kWarp, kWarp, kMaxRowThreads));
}

// Element number b of those that a thread loads at once; `first` is the first of them.
__device__ __forceinline__ int BatchElement(int first, int b) {
  return first + b * static_cast<int>(blockDim.x);
}

// Calls use(i, load(i)) for every i < size with i % threads = threadIdx.x. A load must not depend
// on what `use` writes.
template <int kLoads = kLoadsAtOnce, typename Load, typename Use>
__device__ __forceinline__ void ForRow(int64_t size, const Load& load, const Use& use) {
  const int end = static_cast<int>(size);
  for (int first = static_cast<int>(threadIdx.x); first < end;
       first = BatchElement(first, kLoads)) {
    decltype(load(first)) loaded[kLoads];
#pragma unroll
    for (int b = 0; b < kLoads; ++b) {
      loaded[b] = load(min(BatchElement(first, b), end - 1));  // no branch between the loads
    }
#pragma unroll
    for (int b = 0; b < kLoads; ++b) {
      if (BatchElement(first, b) < end) use(BatchElement(first, b), loaded[b]);
    }
  }
}

// Combines the threads' values in a fixed order; every thread gets the result. `scratch` is
// [threads / 32] in shared memory, and free for other uses afterwards.
template <typename T, typename Combine>
__device__ __forceinline__ T ReduceRow(T value, T* scratch, const Combine& combine) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, lanes));
  }
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = scratch[0];
  for (int i = 1; i < warps; ++i) result = combine(result, scratch[i]);
  __syncthreads();
  return result;
}

template <typename T>
__device__ __forceinline__ T RowMax(T value, T* scratch) {
  return ReduceRow(value, scratch, [](T x, T y) { return x < y ? y : x; });
}
template <typename T>
__device__ __forceinline__ T RowSum(T value, T* scratch) {
  return ReduceRow(value, scratch, [](T x, T y) { return x + y; });
}

// RowMean is mean(x) over k elements; RowInverseDeviation is 1 / sqrt(mean((x - mean)^2) + eps).
__device__ __forceinline__ float RowMean(const float* x, int64_t k, float* scratch) {
  float sum = 0.0f;
  ForRow(
      k, [&](int i) { return x[i]; }, [&](int, float element) { sum += element; });
  return RowSum(sum, scratch) / static_cast<float>(k);
}
__device__ __forceinline__ float RowInverseDeviation(const float* x, int64_t k, float mean,
                                                     float eps, float* scratch) {
  float squares = 0.0f;
  ForRow(
      k, [&](int i) { return x[i]; },
      [&](int, float element) {
        const float deviation = element - mean;
        squares = __fmaf_rn(deviation, deviation, squares);
      });
  return 1.0f / sqrtf(RowSum(squares, scratch) / static_cast<float>(k) + eps);
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_ROW_REDUCE_CUH_
