// The gated half of an MLP. See kernels/ops/gated_mlp.h.
#include "kernels/ops/gated_mlp.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/prepared_rows.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void GatedMlp(Stream& stream, const GatedMlpArgs& args) {
  if (!stream.ok()) return;
  if (args.gate.type != args.up.type) return stream.Fail(OpStatus::kUnsupported);
  const PreparedRows h = PrepareRows(stream,
                                     {.x = args.x,
                                      .num_rows = args.out.rows,
                                      .rows = nullptr,
                                      .norm = args.norm,
                                      .addend = {},
                                      .addend_rows = nullptr,
                                      .gate = {}},
                                     args.gate.type, args.gate.k);
  if (!stream.ok()) return;
  ForEachOutputBlock(stream.executor, args.out.rows, args.gate.n, [&](const OutputBlock& block) {
    alignas(64) float gate[kBlockSums];
    alignas(64) float up[kBlockSums];
    PanelProduct(h, args.gate, block, gate);
    PanelProduct(h, args.up, block, up);
    ForEachVector(block, args.gate.n, [&](int64_t row, int64_t c, int64_t i, int64_t count) {
      F32x16 logit = Load(gate + i);
      F32x16 factor = Load(up + i);
      if (args.gate_bias != nullptr) {
        const bool whole = count == kLanes;
        const float* gate_bias = args.gate_bias + c;
        const float* up_bias = args.up_bias + c;
        logit = logit + (whole ? Load(gate_bias) : LoadPartial(gate_bias, count));
        factor = factor + (whole ? Load(up_bias) : LoadPartial(up_bias, count));
      }
      const F32x16 exponent = args.activation == Activation::kSilu
                                  ? logit
                                  : Broadcast(kGeluSlope) * logit *
                                        (Broadcast(1.0f) + Broadcast(kGeluCubic) * logit * logit);
      const F32x16 value = logit * Sigmoid(exponent) * factor;
      float* out = args.out.f32_row(row) + c;
      if (count == kLanes) {
        Store(value, out);
      } else {
        StorePartial(value, out, count);
      }
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
