// Reference gated MLP. See kernels/ops/gated_mlp.h.
#include "kernels/ops/gated_mlp.h"

#include "kernels/reference/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void GatedMlp(Stream& stream, const GatedMlpArgs& args) {
  if (!stream.ok()) return;
  for (int64_t t = 0; t < args.out.rows; ++t) {
    const Row h = RoundedFor(args.gate.type, Normalised(args.x.f32_row(t), args.gate.k, args.norm));
    for (int64_t c = 0; c < args.gate.n; ++c) {
      const bool biased = args.gate_bias != nullptr;
      const double gate = Dot(h, args.gate, c) + (biased ? args.gate_bias[c] : 0.0);
      const double up = Dot(h, args.up, c) + (biased ? args.up_bias[c] : 0.0);
      const double silu = gate * Sigmoid(gate);  // Activation::kSilu
      args.out.f32_row(t)[c] = static_cast<float>(silu * up);
    }
  }
}

}  // namespace longstream::reference
