// Reference table of rotations (kernels/ops/elementwise/rope_table.h).
#include "kernels/ops/elementwise/rope_table.h"

#include <cmath>

#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void RopeTable(Stream& stream, const RopeTableArgs& args) {
  if (!stream.ok()) return;
  const int64_t half = args.head_dim / 2;
  for (int64_t t = 0; t < args.num_rows; ++t) {
    const int64_t p = args.modulo > 0 ? args.positions[t] % args.modulo : args.positions[t];
    const double angle = args.position_scale * static_cast<double>(p) + args.position_offset;
    float* row = args.table + t * args.head_dim;
    for (int64_t i = 0; i < half; ++i) {
      const bool rotates = args.inv_freq[i] != 0.0;
      row[i] =
          rotates ? static_cast<float>(args.magnitude * std::cos(angle * args.inv_freq[i])) : 1;
      row[half + i] =
          rotates ? static_cast<float>(args.magnitude * std::sin(angle * args.inv_freq[i])) : 0;
    }
  }
}

}  // namespace longstream::reference
