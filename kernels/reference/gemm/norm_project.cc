// Reference normalise-and-project. See kernels/ops/gemm/norm_project.h.
#include "kernels/ops/gemm/norm_project.h"

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void NormProject(Stream& stream, const NormProjectArgs& args) {
  if (!stream.ok()) return;
  for (int64_t r = 0; r < args.out.rows; ++r) {
    Row h = Normalised(args.x.f32_row(r), args.weight.k, args.norm);
    if (args.addend.data != nullptr) {
      const float* addend = args.addend.f32_row(args.addend_rows[r]);
      for (int64_t i = 0; i < args.weight.k; ++i) h[static_cast<size_t>(i)] += addend[i];
    }
    if (args.gate.data != nullptr) {
      const float* gate = args.gate.f32_row(r);
      for (int64_t i = 0; i < args.weight.k; ++i) h[static_cast<size_t>(i)] *= Sigmoid(gate[i]);
    }
    h = RoundedFor(args.weight.type, std::move(h));
    for (int64_t c = 0; c < args.weight.n; ++c) {
      const double bias = args.bias != nullptr ? args.bias[c] : 0.0;
      args.out.f32_row(r)[c] = static_cast<float>(args.scale * (Dot(h, args.weight, c) + bias));
    }
  }
}

}  // namespace longstream::reference
