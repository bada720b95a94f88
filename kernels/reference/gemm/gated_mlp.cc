// Reference gated MLP. See kernels/ops/gemm/gated_mlp.h.
#include "kernels/ops/gemm/gated_mlp.h"

#include <cmath>
#include <numbers>

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

double Activated(Activation activation, double x) {
  if (activation == Activation::kSilu) return x * Sigmoid(x);
  if (activation == Activation::kGelu) return 0.5 * x * (1.0 + std::erf(x * std::sqrt(0.5)));
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(u));
}

}  // namespace

void GatedMlp(Stream& stream, const GatedMlpArgs& args) {
  if (!stream.ok()) return;
  for (int64_t t = 0; t < args.out.rows; ++t) {
    const Row h = RoundedFor(args.gate.type, Normalised(args.x.f32_row(t), args.gate.k, args.norm));
    for (int64_t c = 0; c < args.gate.n; ++c) {
      const bool biased = args.gate_bias != nullptr;
      const double gate = Dot(h, args.gate, c) + (biased ? args.gate_bias[c] : 0.0);
      double value = Activated(args.activation, gate);
      if (args.gated()) value *= Dot(h, args.up, c) + (biased ? args.up_bias[c] : 0.0);
      args.out.f32_row(t)[c] = static_cast<float>(value);
    }
  }
}

}  // namespace longstream::reference
