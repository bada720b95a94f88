// Reference projection into the residual stream. See kernels/ops/gemm/project_residual.h.
#include "kernels/ops/gemm/project_residual.h"

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void ProjectResidual(Stream& stream, const ProjectResidualArgs& args) {
  if (!stream.ok()) return;
  for (int64_t t = 0; t < args.x.rows; ++t) {
    Row h = Normalised(args.in.f32_row(t), args.weight.k, args.norm);
    if (args.gate.data != nullptr) {
      const float* gate = args.gate.f32_row(t);
      for (int64_t i = 0; i < args.weight.k; ++i) {
        h[static_cast<size_t>(i)] *= args.silu_gate ? Silu(gate[i]) : Sigmoid(gate[i]);
      }
    }
    h = RoundedFor(args.weight.type, std::move(h));
    for (int64_t c = 0; c < args.weight.n; ++c) {
      const double bias = args.bias != nullptr ? args.bias[c] : 0.0;
      float& x = args.x.f32_row(t)[c];
      x = static_cast<float>(x + args.scale * (Dot(h, args.weight, c) + bias));
    }
  }
}

}  // namespace longstream::reference
