// Activation of a gated attention unit (kernels/ops/elementwise/gau_activate.h).
#include "kernels/ops/elementwise/gau_activate.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

LONGSTREAM_INLINE F32x16 Silu(const F32x16& x) { return x * Sigmoid(x); }

}  // namespace

void GauActivate(Stream& stream, const GauActivateArgs& args) {
  if (!stream.ok()) return;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.v.rows), [&](uint32_t t) {
    float* v = args.v.f32_row(t);
    ForEachRowVector(args.v.cols, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
      access.Write(Silu(access.Read(v + i)), v + i);
    });
    const float* z = args.z.f32_row(t);
    float* q = args.q.f32_row(t);
    float* k = args.k.f32_row(t);
    ForEachRowVector(args.z.cols, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
      const F32x16 active = Silu(access.Read(z + i));
      access.Write(Fma(access.Read(args.q_scale + i), active, access.Read(args.q_offset + i)),
                   q + i);
      access.Write(Fma(access.Read(args.k_scale + i), active, access.Read(args.k_offset + i)),
                   k + i);
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
