// Normalise and project. See kernels/ops/gemm/norm_project.h.
#include "kernels/ops/gemm/norm_project.h"

#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/gemm/prepared_rows.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void NormProject(Stream& stream, const NormProjectArgs& args) {
  if (!stream.ok()) return;
  const PreparedRows h = PrepareRows(stream,
                                     {.x = args.x,
                                      .prepared = args.prepared,
                                      .num_rows = args.out.rows,
                                      .norm = args.norm,
                                      .addend = args.addend,
                                      .addend_rows = args.addend_rows,
                                      .gate = args.gate},
                                     args.weight.type, args.weight.k);
  if (!stream.ok()) return;
  const F32x16 scale = Broadcast(args.scale);
  ForEachOutputBlock(stream.executor, args.out.rows, args.weight.n, [&](const OutputBlock& block) {
    alignas(64) float sums[kBlockSums];
    AskForOutputs(block, args.out);
    PanelProduct(h, args.weight, block, sums);
    ForEachVector(block, args.weight.n, [&](int64_t row, int64_t c, int64_t i, int64_t count) {
      F32x16 value = Load(sums + i);
      float* out = args.out.f32_row(row) + c;
      if (count == kLanes) {
        if (args.bias != nullptr) value = value + Load(args.bias + c);
        Store(scale * value, out);
      } else {
        if (args.bias != nullptr) value = value + LoadPartial(args.bias + c, count);
        StorePartial(scale * value, out, count);
      }
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
