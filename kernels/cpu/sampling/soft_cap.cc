// Bounds numbers (kernels/ops/sampling/soft_cap.h).
#include "kernels/ops/sampling/soft_cap.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

constexpr int64_t kTaskCols = 8192;  // columns of a row in a task; whole vectors

// Max and Min return their second operand if a lane is NaN. So x comes second, and a NaN stays NaN.
LONGSTREAM_INLINE F32x16 Cut(const F32x16& x, float cap) {
  return Min(Broadcast(cap), Max(Broadcast(-cap), x));
}

}  // namespace

void SoftCap(Stream& stream, const SoftCapArgs& args) {
  if (!stream.ok()) return;
  const int64_t pieces = (args.x.cols + kTaskCols - 1) / kTaskCols;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.x.rows * pieces), [&](uint32_t task) {
    const int64_t first = task % pieces * kTaskCols;
    const int64_t left = args.x.cols - first;
    float* x = args.x.f32_row(task / pieces) + first;
    ForEachRowVector(left < kTaskCols ? left : kTaskCols,
                     [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
                       const F32x16 value = access.Read(x + i);
                       access.Write(args.cut ? Cut(value, args.cap) : SoftCapped(value, args.cap),
                                    x + i);
                     });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
