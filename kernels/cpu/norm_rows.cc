// Norm of rows. See kernels/ops/norm_rows.h.
#include "kernels/ops/norm_rows.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void NormRows(Stream& stream, const NormRowsArgs& args) {
  if (!stream.ok()) return;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.in.rows), [&](uint32_t r) {
    const float* x = args.in.f32_row(r);
    float* out = args.out.f32_row(r);
    const Norm& norm = args.norm;
    const float mean = norm.centred ? Mean(x, args.in.cols) : 0.0f;
    const float inverse = norm.centred ? InverseDeviation(x, args.in.cols, mean, norm.eps)
                                       : InverseRms(x, args.in.cols, norm.eps);
    const F32x16 scale = Broadcast(args.scale), factor = scale * Broadcast(inverse);
    ForEachRowVector(args.in.cols, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
      F32x16 value = (access.Read(x + i) - Broadcast(mean)) * factor * access.Read(norm.weight + i);
      if (norm.bias != nullptr) value = value + scale * access.Read(norm.bias + i);
      if (args.accumulate) value = value + access.Read(out + i);
      access.Write(value, out + i);
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
