// Products of f32 matrices on the tensor cores. Each factor is split into two TF32 numbers:
//
//   x = high + low + rest          x y ~ low(x) high(y) + high(x) low(y) + high(x) high(y)
//
// high is x rounded to 11 significant bits, so |x - high| <= 2^-11 |x|. The difference x - high is
// exact, and a multiple of x's last place; it is at most 2^12 times that place. So its upper 11
// bits, low, miss at most one place: |rest| <= 2^-23 |x|. The product low(x) low(y) <= 2^-22 |x y|
// is dropped. In all, a product errs by at most 2^-21 |x y|, which is 8 eps; eps = 2^-24 is half a
// place of f32. (Two bf16 numbers would take half the work and err by 2^-16 |x y|: 192 eps, more
// than a recurrence in f32. Three bf16 numbers and six products cost as much as TF32.)
//
// Tensor cores add in f32 but round toward zero: each instruction errs by up to 2 eps of the
// largest partial sum, always to the same side. So a sum that grows over many blocks does not stay
// in their accumulators.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_SPLIT_PRODUCT_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_SPLIT_PRODUCT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/primitives/mma.cuh"
#include "kernels/cuda/primitives/warp.cuh"

namespace longstream::cuda {

// kCount elements of a fragment. An infinity or a NaN is not lost: its low part is NaN.
template <int kCount>
struct SplitFragment {
  uint32_t high[kCount];
  uint32_t low[kCount];

  __device__ __forceinline__ void Set(int i, float x) {
    constexpr uint32_t kHalf = 0x1000;  // half of the last place of a TF32
    high[i] = (__float_as_uint(x) + kHalf) & kTF32Bits;
    low[i] = __float_as_uint(__fsub_rn(x, __uint_as_float(high[i]))) & kTF32Bits;
  }
};
using SplitA = SplitFragment<4>;
using SplitB = SplitFragment<2>;

// d += A B, with A [16, 8] and B [8, 8]. All lanes of the warp must call it together.
__device__ __forceinline__ void MultiplyAddSplit(float (&d)[4], const SplitA& a, const SplitB& b) {
  MultiplyAddTF32(d, a.low, b.high);
  MultiplyAddTF32(d, a.high, b.low);
  MultiplyAddTF32(d, a.high, b.high);
}

// Loads 16 x 8 elements of A, which begin at `corner` of a row-major tile in shared memory. Rows
// are 16-byte aligned; with a stride of 4 modulo 32 the reads have no bank conflicts.
__device__ __forceinline__ SplitA LoadA(const float* corner, int stride) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t x[4];
  LoadMatrices(x, corner + lane % 16 * stride + lane / 16 * 4);
  SplitA a;
#pragma unroll
  for (int i = 0; i < 4; ++i) a.Set(i, __uint_as_float(x[i]));
  return a;
}

// Loads two fragments of B. Their columns are the 16 rows of 8 elements that begin at `corner`.
// Alignment and stride are as for A.
__device__ __forceinline__ void LoadTransposedB(const float* corner, int stride, SplitB (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t x[4];
  LoadMatrices(x, corner + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 4);
#pragma unroll
  for (int i = 0; i < 4; ++i) b[i / 2].Set(i % 2, __uint_as_float(x[i]));
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_SPLIT_PRODUCT_CUH_
