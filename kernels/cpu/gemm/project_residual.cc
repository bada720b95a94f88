// Project and add to the residual stream. See kernels/ops/gemm/project_residual.h.
#include "kernels/ops/gemm/project_residual.h"

#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/gemm/prepared_rows.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void ProjectResidual(Stream& stream, const ProjectResidualArgs& args) {
  if (!stream.ok()) return;
  const PreparedRows h = PrepareRows(stream,
                                     {.x = args.in,
                                      .prepared = args.prepared,
                                      .num_rows = args.x.rows,
                                      .norm = args.norm,
                                      .addend = {},
                                      .addend_rows = nullptr,
                                      .gate = args.gate,
                                      .silu_gate = args.silu_gate},
                                     args.weight.type, args.weight.k);
  if (!stream.ok()) return;
  const F32x16 scale = Broadcast(args.scale);
  ForEachOutputBlock(stream.executor, args.x.rows, args.weight.n, [&](const OutputBlock& block) {
    alignas(64) float sums[kBlockSums];
    AskForOutputs(block, args.x);
    PanelProduct(h, args.weight, block, sums);
    ForEachVector(block, args.weight.n, [&](int64_t row, int64_t c, int64_t i, int64_t count) {
      F32x16 value = Load(sums + i);
      float* x = args.x.f32_row(row) + c;
      if (count == kLanes) {
        if (args.bias != nullptr) value = value + Load(args.bias + c);
        Store(Load(x) + scale * value, x);
      } else {
        if (args.bias != nullptr) value = value + LoadPartial(args.bias + c, count);
        StorePartial(LoadPartial(x, count) + scale * value, x, count);
      }
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
