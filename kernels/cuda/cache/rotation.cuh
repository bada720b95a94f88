// Rotary position embedding of one pair of elements.
#ifndef LONGSTREAM_KERNELS_CUDA_CACHE_ROTATION_CUH_
#define LONGSTREAM_KERNELS_CUDA_CACHE_ROTATION_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace longstream::cuda {

// Elements i and i + D / 2 of a head.
struct Pair {
  float first;
  float second;
};

// `rope` is a row of RopeTable, [cosines D / 2 | sines D / 2], or nullptr for no rotation. Every
// operation is rounded by itself, so a rounded key has the same bits in every op that rotates it.
__device__ __forceinline__ Pair Rotate(Pair x, const float* rope, int64_t half, int64_t i) {
  if (rope == nullptr) return x;
  const float cosine = rope[i];
  const float sine = rope[half + i];
  return {__fsub_rn(__fmul_rn(x.first, cosine), __fmul_rn(x.second, sine)),
          __fadd_rn(__fmul_rn(x.second, cosine), __fmul_rn(x.first, sine))};
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CACHE_ROTATION_CUH_
