// Reductions over a warp and over a block. The order of the additions is fixed, so that equal
// inputs give equal bits.
#ifndef LONGSTREAM_KERNELS_CUDA_WARP_CUH_
#define LONGSTREAM_KERNELS_CUDA_WARP_CUH_

#include <cuda_runtime.h>

namespace longstream::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// Of `kLanes` neighbouring lanes, a power of two; every lane gets the result.
template <int kLanes = kWarp>
__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, lanes);
  }
  return value;
}

template <int kLanes = kWarp>
__device__ __forceinline__ float WarpMax(float value) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, lanes));
  }
  return value;
}

// Every thread of a one-dimensional block of kThreads gets the sum. `scratch`: [kThreads / 32]
// shared; free for other use after the next barrier.
template <int kThreads>
__device__ __forceinline__ float BlockSum(float value, float* scratch) {
  constexpr int kWarps = kThreads / kWarp;
  value = WarpSum(value);
  if constexpr (kWarps == 1) return value;
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += scratch[i];
  return sum;
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_WARP_CUH_
