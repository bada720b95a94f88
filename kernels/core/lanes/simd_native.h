// The widest f32 register of each instruction set, and the few operations on it that the compiler's
// vector arithmetic does not cover. kernels/cpu/simd/simd.h builds on this header; kernels include
// simd.h.
#ifndef LONGSTREAM_KERNELS_CORE_LANES_SIMD_NATIVE_H_
#define LONGSTREAM_KERNELS_CORE_LANES_SIMD_NATIVE_H_

#include <immintrin.h>

#include <cstdint>

#ifndef LONGSTREAM_ISA
#error "compile with -DLONGSTREAM_ISA=baseline, avx2, avx512_f32, avx512 or amx"
#endif

// Inlines a function even where the optimiser would not (reasons: kernels/cpu/isa_ops.h).
#define LONGSTREAM_INLINE [[gnu::always_inline]] inline
// Inlines a lambda in a header in the same way: [&](...) LONGSTREAM_INLINE_LAMBDA { ... }.
#define LONGSTREAM_INLINE_LAMBDA __attribute__((always_inline))

// Unrolls at most 16 turns of the loop that follows it. Every loop over an array of sums that must
// stay in registers needs this. A single loop over the array that is not unrolled puts the whole
// array in memory.
#if defined(__clang__)
#define LONGSTREAM_UNROLL _Pragma("unroll")
#else
#define LONGSTREAM_UNROLL _Pragma("GCC unroll 16")
#endif

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(__AVX512F__)

inline constexpr int kNativeLanes = 16;
using NativeF32 = __m512;
typedef int32_t NativeI32 __attribute__((vector_size(64)));
typedef int8_t NativeI8 __attribute__((vector_size(16)));
typedef uint64_t NativeU64 __attribute__((vector_size(64)));

LONGSTREAM_INLINE NativeF32 NativeBroadcast(float value) { return _mm512_set1_ps(value); }
LONGSTREAM_INLINE NativeI32 NativeBroadcast(int32_t value) {
  return reinterpret_cast<NativeI32>(_mm512_set1_epi32(value));
}
LONGSTREAM_INLINE NativeF32 NativeLoad(const float* from) { return _mm512_loadu_ps(from); }
LONGSTREAM_INLINE NativeI32 NativeLoad(const int32_t* from) {
  return reinterpret_cast<NativeI32>(_mm512_loadu_si512(from));
}
LONGSTREAM_INLINE void NativeStore(NativeF32 value, float* to) { _mm512_storeu_ps(to, value); }
LONGSTREAM_INLINE void NativeStore(NativeI32 value, int32_t* to) {
  _mm512_storeu_si512(to, reinterpret_cast<__m512i>(value));
}
LONGSTREAM_INLINE NativeF32 NativeFma(NativeF32 a, NativeF32 b, NativeF32 c) {
  return _mm512_fmadd_ps(a, b, c);
}
LONGSTREAM_INLINE NativeF32 NativeSqrt(NativeF32 a) { return _mm512_sqrt_ps(a); }
// NativeMax and NativeMin return the second operand if one operand is NaN or both are zeros.
LONGSTREAM_INLINE NativeF32 NativeMax(NativeF32 a, NativeF32 b) { return _mm512_max_ps(a, b); }
LONGSTREAM_INLINE NativeF32 NativeMin(NativeF32 a, NativeF32 b) { return _mm512_min_ps(a, b); }
// Bit i is the sign of lane i.
LONGSTREAM_INLINE uint32_t NativeSigns(NativeI32 a) {
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(a));
}
// Loads kNativeLanes numbers of 16 bits, each extended with zeros.
LONGSTREAM_INLINE NativeI32 NativeLoadU16(const uint16_t* from) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return reinterpret_cast<NativeI32>(_mm512_cvtepu16_epi32(half));
}
// Stores the low 16 bits of every lane.
LONGSTREAM_INLINE void NativeStoreU16(NativeI32 value, uint16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(value)));
}
LONGSTREAM_INLINE NativeF32 NativeLoadF16(const uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
// Rounds to nearest even.
LONGSTREAM_INLINE void NativeStoreF16(NativeF32 value, uint16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// The 64-bit products of the even 32-bit lanes, which hold unsigned numbers.
LONGSTREAM_INLINE NativeU64 NativeMultiplyEven(NativeU64 a, NativeU64 b) {
  return reinterpret_cast<NativeU64>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
// Adds lanes i and i + 8, then lanes i and i + 4 of the result; every instruction set uses this
// order.
LONGSTREAM_INLINE __m128 NativeSumToFour(const NativeF32* part) {
  const __m256 eight = _mm512_castps512_ps256(part[0]) + _mm512_extractf32x8_ps(part[0], 1);
  return _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
}

#elif defined(__AVX2__)

inline constexpr int kNativeLanes = 8;
using NativeF32 = __m256;
typedef int32_t NativeI32 __attribute__((vector_size(32)));
typedef int8_t NativeI8 __attribute__((vector_size(8)));
typedef uint64_t NativeU64 __attribute__((vector_size(32)));

LONGSTREAM_INLINE NativeF32 NativeBroadcast(float value) { return _mm256_set1_ps(value); }
LONGSTREAM_INLINE NativeI32 NativeBroadcast(int32_t value) {
  return reinterpret_cast<NativeI32>(_mm256_set1_epi32(value));
}
LONGSTREAM_INLINE NativeF32 NativeLoad(const float* from) { return _mm256_loadu_ps(from); }
LONGSTREAM_INLINE NativeI32 NativeLoad(const int32_t* from) {
  return reinterpret_cast<NativeI32>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
LONGSTREAM_INLINE void NativeStore(NativeF32 value, float* to) { _mm256_storeu_ps(to, value); }
LONGSTREAM_INLINE void NativeStore(NativeI32 value, int32_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
}
LONGSTREAM_INLINE NativeF32 NativeFma(NativeF32 a, NativeF32 b, NativeF32 c) {
  return _mm256_fmadd_ps(a, b, c);
}
LONGSTREAM_INLINE NativeF32 NativeSqrt(NativeF32 a) { return _mm256_sqrt_ps(a); }
LONGSTREAM_INLINE NativeF32 NativeMax(NativeF32 a, NativeF32 b) { return _mm256_max_ps(a, b); }
LONGSTREAM_INLINE NativeF32 NativeMin(NativeF32 a, NativeF32 b) { return _mm256_min_ps(a, b); }
LONGSTREAM_INLINE uint32_t NativeSigns(NativeI32 a) {
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(a)));
}
LONGSTREAM_INLINE NativeI32 NativeLoadU16(const uint16_t* from) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return reinterpret_cast<NativeI32>(_mm256_cvtepu16_epi32(half));
}
LONGSTREAM_INLINE void NativeStoreU16(NativeI32 value, uint16_t* to) {
  const __m256i masked = reinterpret_cast<__m256i>(value & NativeBroadcast(0xffff));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packus_epi32(_mm256_castsi256_si128(masked), _mm256_extracti128_si256(masked, 1)));
}
LONGSTREAM_INLINE NativeF32 NativeLoadF16(const uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
LONGSTREAM_INLINE void NativeStoreF16(NativeF32 value, uint16_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
LONGSTREAM_INLINE NativeU64 NativeMultiplyEven(NativeU64 a, NativeU64 b) {
  return reinterpret_cast<NativeU64>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
LONGSTREAM_INLINE __m128 NativeSumToFour(const NativeF32* part) {
  const __m256 eight = part[0] + part[1];
  return _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
}

#else  // SSE2, which every x86-64 processor has

inline constexpr int kNativeLanes = 4;
using NativeF32 = __m128;
typedef int32_t NativeI32 __attribute__((vector_size(16)));
typedef int8_t NativeI8 __attribute__((vector_size(4)));
typedef uint64_t NativeU64 __attribute__((vector_size(16)));

LONGSTREAM_INLINE NativeF32 NativeBroadcast(float value) { return _mm_set1_ps(value); }
LONGSTREAM_INLINE NativeI32 NativeBroadcast(int32_t value) {
  return reinterpret_cast<NativeI32>(_mm_set1_epi32(value));
}
LONGSTREAM_INLINE NativeF32 NativeLoad(const float* from) { return _mm_loadu_ps(from); }
LONGSTREAM_INLINE NativeI32 NativeLoad(const int32_t* from) {
  return reinterpret_cast<NativeI32>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
LONGSTREAM_INLINE void NativeStore(NativeF32 value, float* to) { _mm_storeu_ps(to, value); }
LONGSTREAM_INLINE void NativeStore(NativeI32 value, int32_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(value));
}
LONGSTREAM_INLINE NativeF32 NativeFma(NativeF32 a, NativeF32 b, NativeF32 c) { return a * b + c; }
LONGSTREAM_INLINE NativeF32 NativeSqrt(NativeF32 a) { return _mm_sqrt_ps(a); }
LONGSTREAM_INLINE NativeF32 NativeMax(NativeF32 a, NativeF32 b) { return _mm_max_ps(a, b); }
LONGSTREAM_INLINE NativeF32 NativeMin(NativeF32 a, NativeF32 b) { return _mm_min_ps(a, b); }
LONGSTREAM_INLINE uint32_t NativeSigns(NativeI32 a) {
  return static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(a)));
}
LONGSTREAM_INLINE NativeI32 NativeLoadU16(const uint16_t* from) {
  const __m128i half = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return reinterpret_cast<NativeI32>(_mm_unpacklo_epi16(half, _mm_setzero_si128()));
}
LONGSTREAM_INLINE void NativeStoreU16(NativeI32 value, uint16_t* to) {
  // The saturating pack does not change a number that is sign-extended from 16 bits.
  const __m128i extended = reinterpret_cast<__m128i>((value << 16) >> 16);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(extended, extended));
}
LONGSTREAM_INLINE NativeF32 NativeLoadF16(const uint16_t* from) {
  // Computes in each lane what longstream::ToF32(F16) computes.
  const NativeI32 bits = NativeLoadU16(from);
  const NativeI32 sign = (bits & NativeBroadcast(0x8000)) << 16;
  const NativeI32 magnitude = bits & NativeBroadcast(0x7fff);
  const NativeF32 scaled = reinterpret_cast<NativeF32>(magnitude << 13) * NativeBroadcast(0x1p112f);
  const NativeI32 special = NativeBroadcast(0x7f800000) | (magnitude << 13);
  const NativeI32 is_finite = magnitude < NativeBroadcast(0x7c00);
  return reinterpret_cast<NativeF32>((is_finite ? reinterpret_cast<NativeI32>(scaled) : special) |
                                     sign);
}
LONGSTREAM_INLINE NativeU64 NativeMultiplyEven(NativeU64 a, NativeU64 b) {
  return reinterpret_cast<NativeU64>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}
LONGSTREAM_INLINE void NativeStoreF16(NativeF32 value, uint16_t* to) {
  // Computes in each lane what longstream::ToF16 computes.
  const NativeI32 bits = reinterpret_cast<NativeI32>(value);
  const NativeI32 magnitude = bits & NativeBroadcast(0x7fffffff);
  const NativeI32 odd = (magnitude >> 13) & NativeBroadcast(1);
  const NativeI32 normal = (magnitude - NativeBroadcast((112 << 23) - 0xfff) + odd) >> 13;
  const NativeF32 shifted = reinterpret_cast<NativeF32>(magnitude) + NativeBroadcast(0.5f);
  const NativeI32 subnormal = reinterpret_cast<NativeI32>(shifted) - NativeBroadcast(0x3f000000);
  const NativeI32 nan = ((magnitude >> 13) & NativeBroadcast(0x3ff)) | NativeBroadcast(0x7e00);
  NativeI32 rounded = magnitude < NativeBroadcast(0x38800000) ? subnormal : normal;
  rounded = magnitude >= NativeBroadcast(0x477ff000) ? NativeBroadcast(0x7c00) : rounded;
  rounded = magnitude > NativeBroadcast(0x7f800000) ? nan : rounded;
  NativeStoreU16(rounded | ((bits >> 16) & NativeBroadcast(0x8000)), to);
}
LONGSTREAM_INLINE __m128 NativeSumToFour(const NativeF32* part) {
  return (part[0] + part[2]) + (part[1] + part[3]);
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CORE_LANES_SIMD_NATIVE_H_
