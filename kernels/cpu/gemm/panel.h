// The packed layout of a weight on every CPU instruction set, but for bf16 on AVX2 and AVX-512,
// whose panels stand in compressed_panel.h's layout.
//
// Panels of 32 outputs; within a panel the inputs k follow each other, and for each k its 32
// outputs:
//
//   f32, f16  P[ceil(n / 32)][k][32]
//   bf16      P[ceil(n / 32)][ceil(k / 2)][32][2]   pairs of k, as the bf16 dot product wants them
//   int8      P[ceil(n / 32)][ceil(k / 32)]: f16 scales [32], then bytes [8][32][4], fours of k
//   int4      the same with bytes [4][32][4]: in their low halves four k, in their high halves
//             those 16 further on
//
// A vector register then holds one k (or one pair, or four) of 16 outputs and every output has a
// lane of its own, in which its sum over k runs. Outputs and inputs beyond n and k are zero.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_PANEL_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_PANEL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/lanes/simd_native.h"
#include "kernels/core/quantise.h"

namespace longstream::cpu::LONGSTREAM_ISA {

inline constexpr int64_t kPanelOutputs = 32;

LONGSTREAM_INLINE int64_t NumPanels(int64_t n) { return (n + kPanelOutputs - 1) / kPanelOutputs; }

// Elements of one panel of k inputs. REQUIRES: !IsQuantised(type)
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

// What is added to an int8 or int4 before it is stored: int4 is unsigned, and so is int8 where the
// instruction set multiplies unsigned with signed bytes.
#if defined(__AVX512VNNI__)
inline constexpr int kI8Offset = 128;
#else
inline constexpr int kI8Offset = 0;
#endif
inline constexpr int kI4Offset = 8;
LONGSTREAM_INLINE constexpr int OffsetOf(DType type) {
  return type == DType::kI8 ? kI8Offset : kI4Offset;
}

inline constexpr int64_t kScaleBytes = kPanelOutputs * static_cast<int64_t>(sizeof(F16));

// Bytes of one group of 32 inputs of a panel. REQUIRES: IsQuantised(type)
LONGSTREAM_INLINE constexpr int64_t GroupBytes(DType type) {
  return kScaleBytes + kPanelOutputs * kGroupInputs / (type == DType::kI8 ? 1 : 2);
}

LONGSTREAM_INLINE int64_t PanelBytes(DType type, int64_t k) {
  return IsQuantised(type) ? NumGroups(k) * GroupBytes(type)
                           : PanelElements(type, k) * static_cast<int64_t>(SizeOf(type));
}

// Where in a group the byte of input k < 32 of output `lane` is.
LONGSTREAM_INLINE int64_t GroupByte(DType type, int64_t k, int64_t lane) {
  const int64_t four = type == DType::kI8 ? k / 4 : k / 4 % 4;
  return kScaleBytes + (four * kPanelOutputs + lane) * 4 + k % 4;
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_PANEL_H_
