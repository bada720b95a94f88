// Reference embedding lookup (kernels/ops/elementwise/embed.h).
#include "kernels/ops/elementwise/embed.h"

#include "kernels/reference/gemm/weight.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void Embed(Stream& stream, const EmbedArgs& args) {
  if (!stream.ok()) return;
  for (int64_t t = 0; t < args.out.rows; ++t) {
    const int32_t id = args.ids[t] >= 0 ? args.ids[t] : args.sampled[~args.ids[t]];
    for (int64_t i = 0; i < args.table.k; ++i) {
      args.out.f32_row(t)[i] = id < 0 ? 0.0f : args.multiplier * WeightAt(args.table, id, i);
    }
  }
}

}  // namespace longstream::reference
