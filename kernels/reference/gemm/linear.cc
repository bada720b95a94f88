// Reference linear op: a product with operations before and after it (kernels/ops/gemm/linear.h).
#include "kernels/ops/gemm/linear.h"

#include <cmath>
#include <numbers>

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

// Row r of h in the op's equation: the row after the norm, the addend and the gate.
Row Before(const LinearRows& rows, int64_t r, int64_t k) {
  Row h = Normalised(rows.x.f32_row(r), k, rows.norm);
  if (rows.addend.data != nullptr) {
    const float* addend = rows.addend.f32_row(rows.addend_rows[r]);
    for (int64_t i = 0; i < k; ++i) h[static_cast<size_t>(i)] += addend[i];
  }
  if (rows.gate.data != nullptr) {
    const float* gate = rows.gate.f32_row(r);
    for (int64_t i = 0; i < k; ++i) {
      h[static_cast<size_t>(i)] *= rows.silu_gate ? Silu(gate[i]) : Sigmoid(gate[i]);
    }
  }
  return h;
}

double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return Silu(x);
    case Activation::kGeluTanh: {
      const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(u));
    }
    case Activation::kGelu:
      return 0.5 * x * (1.0 + std::erf(x * std::sqrt(0.5)));
    case Activation::kNone:
      break;
  }
  return x;
}

double BiasAt(const float* bias, int64_t output) { return bias == nullptr ? 0.0 : bias[output]; }

}  // namespace

void Linear(Stream& stream, const LinearArgs& args) {
  if (!stream.ok()) return;
  if (!args.IsServed()) return stream.Fail(OpStatus::kUnsupported);
  const PackedWeight& weight = args.in.weight();
  const Matrix& out = args.out.rows();
  for (int64_t r = 0; r < out.rows; ++r) {
    const Row h = RoundedFor(weight.type, Before(args.in.rows(), r, weight.k));
    for (int64_t c = 0; c < weight.n; ++c) {
      double y = Dot(h, weight, c) + BiasAt(args.bias, c);
      y = args.scale * Activated(args.activation, y);
      if (args.up.n > 0) y *= Dot(h, args.up, c) + BiasAt(args.up_bias, c);
      float& to = out.f32_row(r)[c];
      to = static_cast<float>(args.accumulate ? to + y : y);
    }
  }
}

}  // namespace longstream::reference
