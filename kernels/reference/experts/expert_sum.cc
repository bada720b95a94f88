// Reference second half of the experts (kernels/ops/experts/expert_sum.h).
#include "kernels/ops/experts/expert_sum.h"

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void ExpertSum(Stream& stream, const ExpertSumArgs& args) {
  if (!stream.ok()) return;
  const Routes& routes = args.routes;
  for (int64_t r = 0; r < routes.num_rows && !args.accumulate; ++r) {
    for (int64_t c = 0; c < args.out.cols; ++c) args.out.f32_row(r)[c] = 0.0f;
  }
  const std::byte* hidden = args.hidden;
  for (int64_t e = 0; e < routes.num_experts; ++e) {
    const PackedWeight& down = args.experts[e].down;
    for (int64_t i = routes.first[e]; i < routes.first[e + 1]; ++i) {
      const float* row = reinterpret_cast<const float*>(hidden) + (i - routes.first[e]) * down.k;
      const Row h = RoundedFor(down.type, Row(row, row + down.k));
      for (int64_t c = 0; c < down.n; ++c) {
        float& out = args.out.f32_row(routes.rows[i])[c];
        out += static_cast<float>(args.scale * routes.weights[i] * Dot(h, down, c));
      }
    }
    hidden += PreparedBytes(routes.first[e + 1] - routes.first[e], down.k);
  }
}

}  // namespace longstream::reference
