// Reference gathering of rows (kernels/ops/elementwise/gather_rows.h).
#include "kernels/ops/elementwise/gather_rows.h"

#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void GatherRows(Stream& stream, const GatherRowsArgs& args) {
  if (!stream.ok()) return;
  for (int64_t i = 0; i < args.num_rows; ++i) {
    for (int64_t c = 0; c < args.x.cols; ++c) {
      args.x.f32_row(i)[c] = args.x.f32_row(args.rows[i])[c];
    }
  }
}

}  // namespace longstream::reference
