// The packed layout of a weight on every CPU instruction set. The exception is bf16 on AVX2 and
// AVX-512: its panels are stored in the layout of compressed_panel.h.
//
// Weights are stored in panels of 32 outputs. Within a panel, the inputs k follow each other. For
// each k there are 32 outputs:
//
//   f32, f16  P[ceil(n / 32)][k][32]
//   bf16      P[ceil(n / 32)][ceil(k / 2)][32][2]   pairs of k, as the bf16 dot product takes them
//   int8      P[ceil(n / 32)][ceil(k / 32)]: f16 scales [32], then bytes [8][32][4], fours of k
//   int4      P[ceil(n / 32)][ceil(k / 32)]: f16 scales [32], then bytes [4][32][4];
//             their low halves hold four k, their high halves the four k that are 16 further on
//
// So a vector register holds one input (or a pair of inputs, or four) of 16 outputs. Each output
// has a lane of its own, in which it is summed over k. Outputs beyond n and inputs beyond k are
// zero.
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

// The number of elements of a panel of k inputs. REQUIRES: !IsQuantised(type)
LONGSTREAM_INLINE int64_t PanelElements(DType type, int64_t k) {
  return (type == DType::kBF16 ? (k + 1) / 2 * 2 : k) * kPanelOutputs;
}

// The index within a panel of input k of output `lane`.
template <typename T>
LONGSTREAM_INLINE int64_t PanelIndex(int64_t k, int64_t lane) {
  return k * kPanelOutputs + lane;
}
template <>
LONGSTREAM_INLINE int64_t PanelIndex<BF16>(int64_t k, int64_t lane) {
  return (k / 2 * kPanelOutputs + lane) * 2 + k % 2;
}

// The number that is added to an int8 or int4 before it is stored. It makes int4 unsigned. It makes
// int8 unsigned too where the dot product of bytes (VNNI) requires that.
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

// Bytes of one group of a panel: 32 inputs of all its outputs. REQUIRES: IsQuantised(type)
LONGSTREAM_INLINE constexpr int64_t GroupBytes(DType type) {
  return kScaleBytes + kPanelOutputs * kGroupInputs / (type == DType::kI8 ? 1 : 2);
}

LONGSTREAM_INLINE int64_t PanelBytes(DType type, int64_t k) {
  return IsQuantised(type) ? NumGroups(k) * GroupBytes(type)
                           : PanelElements(type, k) * static_cast<int64_t>(SizeOf(type));
}

// The offset, within a group, of the byte for input k < 32 of output `lane`.
LONGSTREAM_INLINE int64_t GroupByte(DType type, int64_t k, int64_t lane) {
  const int64_t four = type == DType::kI8 ? k / 4 : k / 4 % 4;
  return kScaleBytes + (four * kPanelOutputs + lane) * 4 + k % 4;
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_PANEL_H_
