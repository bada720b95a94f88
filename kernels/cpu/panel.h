// The packed layout of a weight on every CPU instruction set.
//
// Panels of 32 outputs; within a panel the inputs k follow each other, and for each k its 32
// outputs:
//
//   f32, f16  P[ceil(n / 32)][k][32]
//   bf16      P[ceil(n / 32)][ceil(k / 2)][32][2]   pairs of k, as the bf16 dot product wants them
//
// A vector register then holds one k (or one pair) of 16 outputs and every output has a lane of its
// own, in which its sum over k runs. Outputs and inputs beyond n and k are zero.
#ifndef LONGSTREAM_KERNELS_CPU_PANEL_H_
#define LONGSTREAM_KERNELS_CPU_PANEL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cpu/simd_native.h"

namespace longstream::cpu::LONGSTREAM_ISA {

inline constexpr int64_t kPanelOutputs = 32;

LONGSTREAM_INLINE int64_t NumPanels(int64_t n) { return (n + kPanelOutputs - 1) / kPanelOutputs; }

// Elements of one panel of k inputs.
LONGSTREAM_INLINE int64_t PanelElements(DType type, int64_t k) {
  return (type == DType::kBF16 ? (k + 1) / 2 * 2 : k) * kPanelOutputs;
}

// Index within a panel of input k of output `lane`.
template <typename T>
LONGSTREAM_INLINE int64_t PanelIndex(int64_t k, int64_t lane) {
  return k * kPanelOutputs + lane;
}
template <>
LONGSTREAM_INLINE int64_t PanelIndex<BF16>(int64_t k, int64_t lane) {
  return (k / 2 * kPanelOutputs + lane) * 2 + k % 2;
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_PANEL_H_
