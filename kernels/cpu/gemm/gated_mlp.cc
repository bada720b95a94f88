// The gated half of an MLP. See kernels/ops/gemm/gated_mlp.h.
#include "kernels/ops/gemm/gated_mlp.h"

#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/gemm/prepared_rows.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {

namespace {

// A task leaves whole groups (PreparedOut), of several rows one each.
static_assert(kPanelOutputs == kGroupInputs && kBlockPanels == 1);

LONGSTREAM_INLINE F32x16 Activated(Activation activation, const F32x16& x) {
  if (activation == Activation::kSilu) return x * Sigmoid(x);
  const F32x16 one = Broadcast(1.0f);
  if (activation == Activation::kGelu) {
    return Broadcast(0.5f) * x * (one + Erf(Broadcast(kSqrtHalf) * x));
  }
  return x * Sigmoid(Broadcast(kGeluSlope) * x * (one + Broadcast(kGeluCubic) * x * x));
}

}  // namespace

void GatedMlp(Stream& stream, const GatedMlpArgs& args) {
  if (!stream.ok()) return;
  if (args.gated() && args.gate.type != args.up.type) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  const PreparedRows h = PrepareRows(stream,
                                     {.x = args.x,
                                      .prepared = false,
                                      .num_rows = args.out.rows,
                                      .norm = args.norm,
                                      .addend = {},
                                      .addend_rows = nullptr,
                                      .gate = {}},
                                     args.gate.type, args.gate.k);
  if (!stream.ok()) return;
  ForEachOutputBlock(stream.executor, args.out.rows, args.gate.n, [&](const OutputBlock& block) {
    alignas(64) float gate[kBlockSums];
    alignas(64) float up[kBlockSums];
    PreparedOut out(args.out, args.reader);
    if (AsksForOutputs(block)) {
      for (int64_t r = block.first_row; r < block.first_row + block.num_rows; ++r) {
        out.AskFor(r, block.first_panel * kPanelOutputs);
      }
    }
    PanelProduct(h, args.gate, block, gate);
    if (args.gated()) PanelProduct(h, args.up, block, up);
    ForEachVector(block, args.gate.n, [&](int64_t row, int64_t c, int64_t i, int64_t count) {
      const auto with_bias = [&](const float* sums, const float* bias) LONGSTREAM_INLINE_LAMBDA {
        if (bias == nullptr) return Load(sums + i);
        return Load(sums + i) + (count == kLanes ? Load(bias + c) : LoadPartial(bias + c, count));
      };
      F32x16 value = Activated(args.activation, with_bias(gate, args.gate_bias));
      if (args.gated()) value = value * with_bias(up, args.up_bias);
      out.Put(row, c, value, count);
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
