// Transposes blocks of 32-bit words.
#ifndef LONGSTREAM_KERNELS_CPU_SIMD_TRANSPOSE_H_
#define LONGSTREAM_KERNELS_CPU_SIMD_TRANSPOSE_H_

#include <cstdint>

#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Replaces 16 rows of 16 words by their columns.
LONGSTREAM_INLINE void Transpose(I32x16 (&rows)[kLanes]) {
#if defined(__AVX512F__)
  // Four rounds put 2, 4, 8 and then 16 words of a column side by side.
  __m512i a[kLanes], b[kLanes];
  LONGSTREAM_UNROLL
  for (int i = 0; i < kLanes; i += 2) {
    const auto even = reinterpret_cast<__m512i>(rows[i].part[0]);
    const auto odd = reinterpret_cast<__m512i>(rows[i + 1].part[0]);
    a[i] = _mm512_unpacklo_epi32(even, odd);
    a[i + 1] = _mm512_unpackhi_epi32(even, odd);
  }
  LONGSTREAM_UNROLL
  for (int i = 0; i < kLanes; i += 4) {
    LONGSTREAM_UNROLL
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + j + 2]);
      b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + j + 2]);
    }
  }
  // Now quarter q of b[i + j] has rows i ... i + 3 of column 4 q + j.
  constexpr int kEven = 0x88, kOdd = 0xdd;  // quarters 0 and 2, or 1 and 3, of both operands
  LONGSTREAM_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(b[j], b[4 + j], kEven);
    const __m512i odd = _mm512_shuffle_i32x4(b[j], b[4 + j], kOdd);
    const __m512i even_below = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], kEven);
    const __m512i odd_below = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], kOdd);
    const auto set = [&](int column, __m512i words) LONGSTREAM_INLINE_LAMBDA {
      rows[column].part[0] = reinterpret_cast<NativeI32>(words);
    };
    set(j, _mm512_shuffle_i32x4(even, even_below, kEven));
    set(4 + j, _mm512_shuffle_i32x4(odd, odd_below, kEven));
    set(8 + j, _mm512_shuffle_i32x4(even, even_below, kOdd));
    set(12 + j, _mm512_shuffle_i32x4(odd, odd_below, kOdd));
  }
#else
  int32_t from[kLanes][kLanes], to[kLanes][kLanes];
  for (int i = 0; i < kLanes; ++i) Store(rows[i], from[i]);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) to[j][i] = from[i][j];
  }
  for (int i = 0; i < kLanes; ++i) rows[i] = Load(to[i]);
#endif
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SIMD_TRANSPOSE_H_
