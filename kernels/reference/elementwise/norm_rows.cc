// Reference norm of rows (kernels/ops/elementwise/norm_rows.h).
#include "kernels/ops/elementwise/norm_rows.h"

#include <cassert>

#include "kernels/reference/gemm/projection.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void NormRows(Stream& stream, const NormRowsArgs& args) {
  if (!stream.ok()) return;
  assert(args.norm.enabled());
  for (int64_t r = 0; r < args.in.rows; ++r) {
    Norm norm = args.norm;
    for (int64_t begin = 0; begin < args.in.cols; begin += norm.size) {
      const Row y = Normalised(args.in.f32_row(r) + begin, norm.size, norm);
      float* out = args.out.f32_row(r) + begin;
      for (int64_t c = 0; c < norm.size; ++c) {
        const double before = args.accumulate ? out[c] : 0.0;
        out[c] = static_cast<float>(before + args.scale * y[static_cast<size_t>(c)]);
      }
      norm.weight += norm.size;
      if (norm.bias != nullptr) norm.bias += norm.size;
    }
  }
}

}  // namespace longstream::reference
