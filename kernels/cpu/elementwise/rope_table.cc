// Table of rotations (kernels/ops/elementwise/rope_table.h).
#include "kernels/ops/elementwise/rope_table.h"

#include <cmath>

#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void RopeTable(Stream& stream, const RopeTableArgs& args) {
  if (!stream.ok()) return;
  const int64_t half = args.head_dim / 2;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.num_rows), [&](uint32_t t) {
    const int64_t p = args.modulo > 0 ? args.positions[t] % args.modulo : args.positions[t];
    const double angle = args.position_scale * static_cast<double>(p) + args.position_offset;
    float* row = args.table + int64_t{t} * args.head_dim;
    for (int64_t i = 0; i < half; ++i) {
      const double a = angle * args.inv_freq[i];
      const float magnitude = args.inv_freq[i] == 0.0 ? 1.0f : args.magnitude;
      row[i] = static_cast<float>(magnitude * std::cos(a));
      row[half + i] = static_cast<float>(magnitude * std::sin(a));
    }
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
