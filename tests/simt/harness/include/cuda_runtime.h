// Replaces <cuda_runtime.h> when kernels are compiled as C++ for the SIMT harness: the CUDA C++
// language as macros, and the runtime (tests/simt/harness/runtime.h).
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_RUNTIME_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_RUNTIME_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/simt/harness/block.h"
#include "tests/simt/harness/runtime.h"
#include "tests/simt/harness/tensor_sum.h"
#include "tests/simt/harness/vector_types.h"
#include "tests/simt/harness/warpgroup.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// The launch states the size of shared memory (kernels/cuda/primitives/shared.cuh), so ASan sees
// its bounds.
#define __shared__ static_assert(false, "use SharedMemory()")

// Names of the CUDA language. They are in the global namespace, as in CUDA.
inline constexpr const uint3& threadIdx = longstream::simt::place.thread;
inline constexpr const uint3& blockIdx = longstream::simt::place.block;
inline constexpr const dim3& blockDim = longstream::simt::place.block_size;
inline constexpr const dim3& gridDim = longstream::simt::place.grid_size;

inline constexpr int warpSize = 32;

inline void __syncthreads() { longstream::simt::BlockBarrier(); }
inline int __syncthreads_or(int predicate) { return longstream::simt::BlockVote(predicate); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { longstream::simt::WarpBarrier(mask); }

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return longstream::simt::Ballot(mask, predicate);
}
inline int __all_sync(unsigned mask, int predicate) {
  return longstream::simt::Ballot(mask, predicate) == mask;
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int lane = longstream::simt::Lane();
  const int from = (lane & ~(width - 1)) | (source & (width - 1));
  return longstream::simt::Shuffle(mask, value, from);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
  const int lane = longstream::simt::Lane();
  const int from = lane ^ lanes;
  return longstream::simt::Shuffle(mask, value, from / width == lane / width ? from : lane);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = longstream::simt::Lane();
  const int from = lane - static_cast<int>(delta);
  return longstream::simt::Shuffle(mask, value, from >= lane / width * width ? from : lane);
}

// Threads run one at a time between barriers, so plain operations are atomic.
template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}

// The harness does not define __ldg, so that no kernel uses it. A compiler may move a load by __ldg
// before the wait for the kernel that writes the memory (kernels/cuda/primitives/overlap.cuh).

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
[[noreturn]] inline void __trap() { std::abort(); }
inline int __clzll(int64_t x) { return std::countl_zero(static_cast<uint64_t>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }

template <typename T>
constexpr T min(T x, T y) {
  return y < x ? y : x;
}
template <typename T>
constexpr T max(T x, T y) {
  return x < y ? y : x;
}

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_INCLUDE_CUDA_RUNTIME_H_
