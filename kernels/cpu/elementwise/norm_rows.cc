// Norm of rows (kernels/ops/elementwise/norm_rows.h).
#include "kernels/ops/elementwise/norm_rows.h"

#include <cassert>

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

void NormRows(Stream& stream, const NormRowsArgs& args) {
  if (!stream.ok()) return;
  assert(args.norm.enabled());
  ParallelFor(stream.executor, static_cast<uint32_t>(args.in.rows), [&](uint32_t r) {
    const Norm& norm = args.norm;
    for (int64_t begin = 0; begin < args.in.cols; begin += norm.size) {
      const float* x = args.in.f32_row(r) + begin;
      const float* weight = norm.weight + begin;
      float* out = args.out.f32_row(r) + begin;
      const float mean = norm.centred ? Mean(x, norm.size) : 0.0f;
      const float inverse = norm.centred ? InverseDeviation(x, norm.size, mean, norm.eps)
                                         : InverseRms(x, norm.size, norm.eps);
      const F32x16 scale = Broadcast(args.scale), factor = scale * Broadcast(inverse);
      ForEachRowVector(norm.size, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
        F32x16 value = (access.Read(x + i) - Broadcast(mean)) * factor * access.Read(weight + i);
        if (norm.bias != nullptr) value = value + scale * access.Read(norm.bias + begin + i);
        if (args.accumulate) value = value + access.Read(out + i);
        access.Write(value, out + i);
      });
    }
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
