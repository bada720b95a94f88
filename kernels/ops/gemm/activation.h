// The activations of an MLP.
#ifndef LONGSTREAM_KERNELS_OPS_GEMM_ACTIVATION_H_
#define LONGSTREAM_KERNELS_OPS_GEMM_ACTIVATION_H_

namespace longstream {

// The numbers are part of a model's fingerprint (backends/runtime/model_description.cc).
enum class Activation {
  kSilu,      // x sigmoid(x)
  kGeluTanh,  // x / 2 (1 + tanh u), which is x sigmoid(2 u); u = sqrt(2 / pi) (x + 0.044715 x^3)
  kGelu,      // x / 2 (1 + erf(x / sqrt(2)))
  kNone,      // x
};

// For kGeluTanh: 2 u = kGeluSlope x (1 + kGeluCubic x^2).
inline constexpr float kGeluSlope = 1.5957691216057308f;
inline constexpr float kGeluCubic = 0.044715f;
inline constexpr float kSqrtHalf = 0.70710678f;

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_GEMM_ACTIVATION_H_
