// Reference activation of a gated attention unit (kernels/ops/elementwise/gau_activate.h).
#include "kernels/ops/elementwise/gau_activate.h"

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void GauActivate(Stream& stream, const GauActivateArgs& args) {
  if (!stream.ok()) return;
  for (int64_t t = 0; t < args.v.rows; ++t) {
    float* v = args.v.f32_row(t);
    for (int64_t i = 0; i < args.v.cols; ++i) v[i] = static_cast<float>(Silu(v[i]));
    for (int64_t i = 0; i < args.z.cols; ++i) {
      const double z = Silu(args.z.f32_row(t)[i]);
      args.q.f32_row(t)[i] = static_cast<float>(args.q_scale[i] * z + args.q_offset[i]);
      args.k.f32_row(t)[i] = static_cast<float>(args.k_scale[i] * z + args.k_offset[i]);
    }
  }
}

}  // namespace longstream::reference
