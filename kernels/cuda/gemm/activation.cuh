// The activations of an MLP, for one number.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_ACTIVATION_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_ACTIVATION_CUH_

#include <cuda_runtime.h>

#include "kernels/ops/gemm/activation.h"

namespace longstream::cuda {

// REQUIRES: activation is not kNone
__device__ __forceinline__ float Activated(Activation activation, float x) {
  if (activation == Activation::kGelu) return 0.5f * x * (1.0f + erff(kSqrtHalf * x));
  const float exponent =
      activation == Activation::kSilu ? x : kGeluSlope * x * (1.0f + kGeluCubic * x * x);
  return x / (1.0f + expf(-exponent));
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_ACTIVATION_CUH_
