// The first half of an MLP: out = act(h W_gate^T + b_gate) * (h W_up^T + b_up), h = Norm(x)
// (Shazeer 2020, SwiGLU); without a gate, out = act(h W_gate^T + b_gate).
#ifndef LONGSTREAM_KERNELS_OPS_GEMM_GATED_MLP_H_
#define LONGSTREAM_KERNELS_OPS_GEMM_GATED_MLP_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/gemm/norm.h"
#include "kernels/ops/gemm/norm_project.h"

namespace longstream {

enum class Activation {
  kSilu,      // x sigmoid(x)
  kGeluTanh,  // x / 2 (1 + tanh u), which is x sigmoid(2 u); u = sqrt(2 / pi) (x + 0.044715 x^3)
  kGelu,      // x / 2 (1 + erf(x / sqrt(2)))
};

// Of kGeluTanh: 2 u = kGeluSlope x (1 + kGeluCubic x^2).
inline constexpr float kGeluSlope = 1.5957691216057308f;
inline constexpr float kGeluCubic = 0.044715f;
inline constexpr float kSqrtHalf = 0.70710678f;

// Workspace: GatedMlpWorkspace(T, k, ff).
struct GatedMlpArgs {
  Matrix x;                          // [T, k]; not modified
  Norm norm;                         // size k
  PackedWeight gate;                 // [ff, k]
  PackedWeight up;                   // [ff, k] of the same type; n 0: there is one product alone
  const float* gate_bias = nullptr;  // [ff] f32; of two products both or neither
  const float* up_bias = nullptr;    // [ff]
  Activation activation = Activation::kSilu;
  int64_t num_decode_rows = 0;  // rows [0, num_decode_rows) are decode rows (norm_project.h)
  Matrix out;                   // [T, ff]
  // The weight [*, ff] whose product, told so (NormProjectArgs::prepared), is all that reads `out`.
  // A library may then leave rows as that product takes them, anywhere in the
  // NormProjectWorkspace(T, ff) bytes at out.data. REQUIRES: out.stride == ff. data nullptr: rows
  // of f32.
  PackedWeight reader{};

  bool gated() const { return up.n > 0; }
};
using GatedMlpFunction = void (*)(Stream& stream, const GatedMlpArgs& args);

// Room for the prepared rows and for one of the two products.
constexpr size_t GatedMlpWorkspace(int64_t rows, int64_t k, int64_t ff) {
  return NormProjectWorkspace(rows, k) + NormProjectWorkspace(rows, ff);
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_GEMM_GATED_MLP_H_
