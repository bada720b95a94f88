// Reference first half of the experts (kernels/ops/experts/expert_hidden.h).
#include "kernels/ops/experts/expert_hidden.h"

#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

// A row of an expert is a row of the op `linear`.
void ExpertHidden(Stream& stream, const ExpertHiddenArgs& args) {
  if (!stream.ok()) return;
  std::byte* hidden = args.hidden;
  for (int64_t e = 0; e < args.routes.num_experts; ++e) {
    const Expert& expert = args.experts[e];
    const int64_t ff = expert.down.k;
    for (int64_t i = args.routes.first[e]; i < args.routes.first[e + 1]; ++i) {
      const int64_t in_expert = i - args.routes.first[e];
      LinearRows in = args.in;
      in.x = in.x.Rows(args.routes.rows[i], 1);
      float* row = reinterpret_cast<float*>(hidden) + in_expert * ff;
      Linear(stream, {.in = {in, expert.gate},
                      .activation = args.activation,
                      .up = expert.up,
                      .out = Matrix{row, DType::kF32, 1, ff, ff}});
    }
    hidden += PreparedBytes(args.routes.first[e + 1] - args.routes.first[e], ff);
  }
}

}  // namespace longstream::reference
