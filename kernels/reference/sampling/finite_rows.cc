// Reference check for finite rows (kernels/ops/sampling/finite_rows.h).
#include "kernels/ops/sampling/finite_rows.h"

#include <cmath>

#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void FiniteRows(Stream& stream, const FiniteRowsArgs& args) {
  if (!stream.ok()) return;
  for (int64_t r = 0; r < args.values.rows; ++r) {
    const float* row = args.values.f32_row(r);
    args.finite[r] = 1;
    for (int64_t c = 0; c < args.values.cols; ++c) {
      if (!std::isfinite(row[c])) args.finite[r] = 0;
    }
  }
}

}  // namespace longstream::reference
