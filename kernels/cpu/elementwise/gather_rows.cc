// Gathers rows at the front of a matrix (kernels/ops/elementwise/gather_rows.h).
#include "kernels/ops/elementwise/gather_rows.h"

#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Each task moves some columns of all rows. It moves one row after the other, because the
// destination of a row may be the source of an earlier row.
void GatherRows(Stream& stream, const GatherRowsArgs& args) {
  if (!stream.ok()) return;
  constexpr int64_t kTaskCols = 1024;
  const int64_t tasks = (args.x.cols + kTaskCols - 1) / kTaskCols;
  ParallelFor(stream.executor, static_cast<uint32_t>(tasks), [&](uint32_t task) {
    const int64_t first = task * kTaskCols;
    const int64_t left = args.x.cols - first;
    const auto bytes = static_cast<size_t>(left < kTaskCols ? left : kTaskCols) * sizeof(float);
    for (int64_t i = 0; i < args.num_rows; ++i) {
      if (args.rows[i] == i) continue;
      __builtin_memcpy(args.x.f32_row(i) + first, args.x.f32_row(args.rows[i]) + first, bytes);
    }
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
