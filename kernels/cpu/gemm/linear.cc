// The linear op: a product with operations before and after it (kernels/ops/gemm/linear.h).
#include "kernels/ops/gemm/linear.h"

#include "kernels/cpu/gemm/activated.h"
#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/gemm/prepared_rows.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// A task writes whole groups of outputs, as PreparedOut requires: one group for each of its rows.
static_assert(kPanelOutputs == kGroupInputs && kBlockPanels == 1);

}  // namespace

void Linear(Stream& stream, const LinearArgs& args) {
  if (!stream.ok()) return;
  if (!args.IsServed()) return stream.Fail(OpStatus::kUnsupported);
  const PackedWeight& weight = args.in.weight();
  const Matrix& to = args.out.rows();
  const PreparedRows h = PrepareRows(stream, args.in, to.rows);
  if (!stream.ok()) return;
  const bool gated = args.up.n > 0;
  const F32x16 scale = Broadcast(args.scale);
  ForEachOutputBlock(stream.executor, to.rows, weight, [&](const OutputBlock& block) {
    alignas(64) float sums[kBlockSums];
    alignas(64) float up_sums[kBlockSums];
    PreparedOut out(args.out);
    if (AsksForOutputs(block)) {
      for (int64_t r = block.first_row; r < block.first_row + block.num_rows; ++r) {
        for (int64_t p = 0; p < block.num_panels; ++p) {
          out.AskFor(r, (block.first_panel + p) * kPanelOutputs);
        }
      }
    }
    PanelProduct(h, weight, block, sums);
    if (gated) PanelProduct(h, args.up, block, up_sums);
    ForEachVector(block, weight.n, [&](int64_t row, int64_t c, int64_t i, int64_t count) {
      F32x16 value = Load(sums + i);
      if (args.bias != nullptr) value = value + LoadUpTo(args.bias + c, count);
      if (args.activation != Activation::kNone) {
        value = Activated(args.activation, value);
        if (gated) {
          F32x16 up = Load(up_sums + i);
          if (args.up_bias != nullptr) up = up + LoadUpTo(args.up_bias + c, count);
          value = value * up;
        }
      } else {
        value = scale * value;
        if (args.accumulate) value = LoadUpTo(to.f32_row(row) + c, count) + value;
      }
      out.Put(row, c, value, count);
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
