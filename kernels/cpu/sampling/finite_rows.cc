// Check for finite rows (kernels/ops/sampling/finite_rows.h).
#include "kernels/ops/sampling/finite_rows.h"

#include <bit>

#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// A number is finite if not all bits of its exponent are set. Compilers vectorise this loop.
int32_t AllFinite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t non_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    non_finite |= (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent ? 1u : 0u;
  }
  return non_finite == 0 ? 1 : 0;
}

}  // namespace

void FiniteRows(Stream& stream, const FiniteRowsArgs& args) {
  if (!stream.ok()) return;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.values.rows), [&](uint32_t r) {
    args.finite[r] = AllFinite(args.values.f32_row(r), args.values.cols);
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
