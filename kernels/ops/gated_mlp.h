// The gated half of an MLP: out = act(h W_gate^T) * (h W_up^T), h = Norm(x). (Shazeer 2020,
// SwiGLU.)
#ifndef LONGSTREAM_KERNELS_OPS_GATED_MLP_H_
#define LONGSTREAM_KERNELS_OPS_GATED_MLP_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/norm.h"

namespace longstream {

enum class Activation { kSilu };

// Workspace: NormProjectWorkspace(T, k).
struct GatedMlpArgs {
  Matrix x;           // [T, k]; not modified
  Norm norm;          // size k
  PackedWeight gate;  // [ff, k]
  PackedWeight up;    // [ff, k] of the same type
  Activation activation = Activation::kSilu;
  Matrix out;  // [T, ff]
};
using GatedMlpFunction = void (*)(Stream& stream, const GatedMlpArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_GATED_MLP_H_
