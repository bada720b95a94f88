// The arithmetic between a product and its output.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_ACTIVATED_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_ACTIVATED_H_

#include <cstdint>

#include "kernels/cpu/simd/simd.h"
#include "kernels/ops/gemm/activation.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// act(x). REQUIRES: activation != Activation::kNone
LONGSTREAM_INLINE F32x16 Activated(Activation activation, const F32x16& x) {
  if (activation == Activation::kSilu) return x * Sigmoid(x);
  const F32x16 one = Broadcast(1.0f);
  if (activation == Activation::kGelu) {
    return Broadcast(0.5f) * x * (one + Erf(Broadcast(kSqrtHalf) * x));
  }
  return x * Sigmoid(Broadcast(kGeluSlope) * x * (one + Broadcast(kGeluCubic) * x * x));
}

// Loads 16 elements, or only the first `count` of them.
LONGSTREAM_INLINE F32x16 LoadUpTo(const float* from, int64_t count) {
  return count == kLanes ? Load(from) : LoadPartial(from, count);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_ACTIVATED_H_
