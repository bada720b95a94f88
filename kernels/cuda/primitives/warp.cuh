// Reductions over a warp; row_reduce.cuh has those over a block. The order of the additions is
// fixed, so equal inputs give equal bits.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_WARP_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_WARP_CUH_

#include <cuda_runtime.h>

namespace longstream::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// Returns x, but hides from the compiler that it is the same in every iteration of a loop. So
// values computed from it are computed in each iteration, and take no registers that the loop
// needs.
__device__ __forceinline__ int ComputedAnew(int x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// The sum over `kLanes` neighbouring lanes, a power of two; every lane gets the result.
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

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_WARP_CUH_
