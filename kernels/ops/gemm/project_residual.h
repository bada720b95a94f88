// Project a block's result back and add it to the residual stream:
//
//   h[t, :] = Norm(in[t, :]) * sigmoid(gate[t, :])     or  * silu(gate[t, :])
//   x[t, :] += scale * (h[t, :] W^T + bias)
//
// Norm and gate are each optional: attention and MLP use neither or the gate, lightning both, a
// gated attention unit the gate by silu(x) = x sigmoid(x).
#ifndef LONGSTREAM_KERNELS_OPS_GEMM_PROJECT_RESIDUAL_H_
#define LONGSTREAM_KERNELS_OPS_GEMM_PROJECT_RESIDUAL_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/gemm/norm.h"

namespace longstream {

// Workspace: NormProjectWorkspace(T, k).
struct ProjectResidualArgs {
  Matrix in;                    // [T, k]; not modified
  bool prepared = false;        // of `in`, as in norm_project.h. REQUIRES: no norm or gate
  Norm norm{};                  // over all k elements; disabled: in as it is
  Matrix gate{};                // [T, k] logits; data nullptr: no gate
  bool silu_gate = false;       // silu in place of sigmoid
  PackedWeight weight;          // [d, k]
  const float* bias = nullptr;  // [d] f32 or nullptr
  float scale = 1.0f;
  int64_t num_decode_rows = 0;  // rows [0, num_decode_rows) are decode rows (norm_project.h)
  Matrix x;                     // [T, d] updated in place
};
using ProjectResidualFunction = void (*)(Stream& stream, const ProjectResidualArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_GEMM_PROJECT_RESIDUAL_H_
