// Sixteen f32 lanes on every instruction set: one AVX-512, two AVX or four SSE registers.
//
// Kernels are written once with F32x16 and compiled for each set. Arithmetic is IEEE. Fma is fused
// in every set but baseline. So the sets differ in rounding, but never in the order of a
// sum.
#ifndef LONGSTREAM_KERNELS_CPU_SIMD_SIMD_H_
#define LONGSTREAM_KERNELS_CPU_SIMD_SIMD_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/core/dtype.h"
#include "kernels/core/lanes/simd_native.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// ---------------------------------------------------------------- types

inline constexpr int kLanes = 16;
inline constexpr int kParts = kLanes / kNativeLanes;

// Lane i is in part[i / kNativeLanes].
struct F32x16 {
  NativeF32 part[kParts];
};

// Sixteen integers. This is also the type of a mask: a lane is -1 if it is true, else 0.
struct I32x16 {
  NativeI32 part[kParts];
};

// ---------------------------------------------------------------- arithmetic

#define LONGSTREAM_BINARY(Type, op)                                      \
  LONGSTREAM_INLINE Type operator op(Type a, const Type& b) {            \
    for (int p = 0; p < kParts; ++p) a.part[p] = a.part[p] op b.part[p]; \
    return a;                                                            \
  }
LONGSTREAM_BINARY(F32x16, +)
LONGSTREAM_BINARY(F32x16, -)
LONGSTREAM_BINARY(F32x16, *)
LONGSTREAM_BINARY(F32x16, /)
LONGSTREAM_BINARY(I32x16, +)
LONGSTREAM_BINARY(I32x16, -)
LONGSTREAM_BINARY(I32x16, &)
LONGSTREAM_BINARY(I32x16, |)
LONGSTREAM_BINARY(I32x16, ^)
#undef LONGSTREAM_BINARY

// Compares lane by lane. If a lane is NaN, != gives true and the other comparisons false.
#define LONGSTREAM_COMPARISON(Type, op)                                     \
  LONGSTREAM_INLINE I32x16 operator op(const Type& a, const Type& b) {      \
    I32x16 mask;                                                            \
    for (int p = 0; p < kParts; ++p) mask.part[p] = a.part[p] op b.part[p]; \
    return mask;                                                            \
  }
LONGSTREAM_COMPARISON(F32x16, <)
LONGSTREAM_COMPARISON(F32x16, >)
LONGSTREAM_COMPARISON(F32x16, >=)
LONGSTREAM_COMPARISON(F32x16, ==)
LONGSTREAM_COMPARISON(F32x16, !=)
LONGSTREAM_COMPARISON(I32x16, <)
LONGSTREAM_COMPARISON(I32x16, ==)
#undef LONGSTREAM_COMPARISON

LONGSTREAM_INLINE I32x16 operator<<(I32x16 a, int bits) {
  for (int p = 0; p < kParts; ++p) a.part[p] = a.part[p] << bits;
  return a;
}
// Arithmetic shift: the sign bit is copied in.
LONGSTREAM_INLINE I32x16 operator>>(I32x16 a, int bits) {
  for (int p = 0; p < kParts; ++p) a.part[p] = a.part[p] >> bits;
  return a;
}

LONGSTREAM_INLINE F32x16 Broadcast(float value) {
  F32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = NativeBroadcast(value);
  return r;
}
LONGSTREAM_INLINE I32x16 Broadcast(int32_t value) {
  I32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = NativeBroadcast(value);
  return r;
}

LONGSTREAM_INLINE F32x16 Zero() { return Broadcast(0.0f); }

// a * b + c, rounded once if the instruction set has FMA, else twice.
LONGSTREAM_INLINE F32x16 Fma(const F32x16& a, const F32x16& b, F32x16 c) {
  for (int p = 0; p < kParts; ++p) c.part[p] = NativeFma(a.part[p], b.part[p], c.part[p]);
  return c;
}

LONGSTREAM_INLINE F32x16 Sqrt(F32x16 a) {
  for (int p = 0; p < kParts; ++p) a.part[p] = NativeSqrt(a.part[p]);
  return a;
}

// mask ? a : b, lane by lane.
LONGSTREAM_INLINE F32x16 Select(const I32x16& mask, F32x16 a, const F32x16& b) {
  for (int p = 0; p < kParts; ++p) a.part[p] = mask.part[p] ? a.part[p] : b.part[p];
  return a;
}
LONGSTREAM_INLINE I32x16 Select(const I32x16& mask, I32x16 a, const I32x16& b) {
  for (int p = 0; p < kParts; ++p) a.part[p] = mask.part[p] ? a.part[p] : b.part[p];
  return a;
}

// Max and Min give the second operand if a lane of either is NaN, or if both are zeros.
LONGSTREAM_INLINE F32x16 Max(F32x16 a, const F32x16& b) {
  for (int p = 0; p < kParts; ++p) a.part[p] = NativeMax(a.part[p], b.part[p]);
  return a;
}
LONGSTREAM_INLINE F32x16 Min(F32x16 a, const F32x16& b) {
  for (int p = 0; p < kParts; ++p) a.part[p] = NativeMin(a.part[p], b.part[p]);
  return a;
}

// Bit i is set where lane i of a mask is true.
LONGSTREAM_INLINE uint32_t Bits(const I32x16& mask) {
  uint32_t bits = 0;
  for (int p = 0; p < kParts; ++p) bits |= NativeSigns(mask.part[p]) << (p * kNativeLanes);
  return bits;
}

// These convert floats to their bit patterns, and back.
LONGSTREAM_INLINE I32x16 ToBits(const F32x16& a) {
  I32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = reinterpret_cast<NativeI32>(a.part[p]);
  return r;
}
LONGSTREAM_INLINE F32x16 FromBits(const I32x16& a) {
  F32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = reinterpret_cast<NativeF32>(a.part[p]);
  return r;
}

LONGSTREAM_INLINE F32x16 ToF32(const I32x16& a) {
  F32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = __builtin_convertvector(a.part[p], NativeF32);
  return r;
}

// REQUIRES: values are integers that an int32 holds.
LONGSTREAM_INLINE I32x16 ToI32(const F32x16& a) {
  I32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = __builtin_convertvector(a.part[p], NativeI32);
  return r;
}

// ---------------------------------------------------------------- memory (any alignment)

LONGSTREAM_INLINE F32x16 Load(const float* from) {
  F32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = NativeLoad(from + p * kNativeLanes);
  return r;
}
LONGSTREAM_INLINE I32x16 Load(const int32_t* from) {
  I32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = NativeLoad(from + p * kNativeLanes);
  return r;
}
LONGSTREAM_INLINE F32x16 Load(const BF16* from) {
  I32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = NativeLoadU16(&from[p * kNativeLanes].bits) << 16;
  return FromBits(r);
}
LONGSTREAM_INLINE F32x16 Load(const F16* from) {
  F32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = NativeLoadF16(&from[p * kNativeLanes].bits);
  return r;
}

LONGSTREAM_INLINE F32x16 Load(const int8_t* from) {
  F32x16 r;
  for (int p = 0; p < kParts; ++p) {
    NativeI8 bytes;
    __builtin_memcpy(&bytes, from + p * kNativeLanes, sizeof(bytes));
    r.part[p] = __builtin_convertvector(__builtin_convertvector(bytes, NativeI32), NativeF32);
  }
  return r;
}

LONGSTREAM_INLINE void Store(const F32x16& value, float* to) {
  for (int p = 0; p < kParts; ++p) NativeStore(value.part[p], to + p * kNativeLanes);
}
LONGSTREAM_INLINE void Store(const I32x16& value, int32_t* to) {
  for (int p = 0; p < kParts; ++p) NativeStore(value.part[p], to + p * kNativeLanes);
}

// Rounds to the nearest bf16, ties to even, and gives it as f32. The bits are those of
// longstream::ToBF16. (The AVX-512 instruction would flush subnormals.)
LONGSTREAM_INLINE F32x16 RoundToBF16(const F32x16& value) {
  const I32x16 bits = ToBits(value);
  const I32x16 odd = (bits >> 16) & Broadcast(1);
  const I32x16 rounded = bits + Broadcast(0x7fff) + odd;
  const I32x16 quiet_nan = bits | Broadcast(0x400000);
  return FromBits(Select(value != value, quiet_nan, rounded) & Broadcast(-0x10000));
}

// Rounds to nearest, ties to even.
LONGSTREAM_INLINE void Store(const F32x16& value, BF16* to) {
  const I32x16 bits = ToBits(RoundToBF16(value)) >> 16;
  for (int p = 0; p < kParts; ++p) NativeStoreU16(bits.part[p], &to[p * kNativeLanes].bits);
}

// Rounds to nearest, ties to even, with the same bits as longstream::ToF16.
LONGSTREAM_INLINE void Store(const F32x16& value, F16* to) {
  for (int p = 0; p < kParts; ++p) NativeStoreF16(value.part[p], &to[p * kNativeLanes].bits);
}

// REQUIRES: values are integers from -128 to 127.
LONGSTREAM_INLINE void Store(const F32x16& value, int8_t* to) {
  for (int p = 0; p < kParts; ++p) {
    const NativeI8 bytes =
        __builtin_convertvector(__builtin_convertvector(value.part[p], NativeI32), NativeI8);
    __builtin_memcpy(to + p * kNativeLanes, &bytes, sizeof(bytes));
  }
}

// LoadPartial and StorePartial load and store the first `count` lanes, 0 < count <= 16. They touch
// no memory beyond them. The other lanes load as zero.
template <typename T>
LONGSTREAM_INLINE F32x16 LoadPartial(const T* from, int64_t count) {
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return Load(lanes);
}
template <typename T>
LONGSTREAM_INLINE void StorePartial(const F32x16& value, T* to, int64_t count) {
  T lanes[kLanes];
  Store(value, lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

#if defined(__AVX512F__)
LONGSTREAM_INLINE F32x16 LoadPartial(const float* from, int64_t count) {
  return {{_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from)}};
}
LONGSTREAM_INLINE void StorePartial(const F32x16& value, float* to, int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), value.part[0]);
}
#endif

// first, first + 1, ... first + 15.
LONGSTREAM_INLINE I32x16 Iota(int32_t first) {
  constexpr int32_t kOffsets[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Broadcast(first) + Load(kOffsets);
}

// The inverse of Bits: a mask with the lanes whose bits are set. Bits from 16 on are ignored.
LONGSTREAM_INLINE I32x16 LanesOf(uint32_t bits) {
  constexpr int32_t kBits[kLanes] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                     1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                     1 << 12, 1 << 13, 1 << 14, 1 << 15};
  const I32x16 bit = Load(kBits);
  return (Broadcast(static_cast<int32_t>(bits)) & bit) == bit;
}

// ---------------------------------------------------------------- across lanes

// The sum by a fixed tree, the same on every set: first lanes i and i + 8, then i and i + 4, i and
// i + 2, i and i + 1.
LONGSTREAM_INLINE float Sum(const F32x16& a) {
  const __m128 four = NativeSumToFour(a.part);
  const __m128 two = four + _mm_movehl_ps(four, four);
  return two[0] + two[1];
}

// The largest lane; unspecified if one is NaN.
LONGSTREAM_INLINE float MaxLane(const F32x16& a) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(a.part[0]);
#endif
  float lanes[kLanes];
  Store(a, lanes);
  float largest = lanes[0];
  for (int i = 1; i < kLanes; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}

// ---------------------------------------------------------------- functions

// e^x with an error of at most 2 ulp (one unit more for a subnormal result). exp(-inf) = 0,
// exp(NaN) = NaN.
//
// x = n ln 2 + r, |r| <= ln 2 / 2; e^r by a polynomial of degree 7 (Cephes expf).
LONGSTREAM_INLINE F32x16 Exp(F32x16 x) {
  // x <= -104 gives 0, x >= 89 gives infinity. x is the second operand of Max, and the result of
  // Max is the second operand of Min, so a NaN stays NaN.
  x = Min(Broadcast(89.0f), Max(Broadcast(-104.0f), x));
  const F32x16 magic = Broadcast(0x1.8p23f);  // adding it leaves an integer in the low bits
  const F32x16 shifted = Fma(x, Broadcast(0x1.715476p0f), magic);
  const F32x16 n_f32 = shifted - magic;
  F32x16 r = Fma(n_f32, Broadcast(-0.693359375f), x);  // ln 2 in two parts, the first product exact
  r = Fma(n_f32, Broadcast(2.12194440e-4f), r);
  F32x16 p = Broadcast(1.9875691500e-4f);
  p = Fma(p, r, Broadcast(1.3981999507e-3f));
  p = Fma(p, r, Broadcast(8.3334519073e-3f));
  p = Fma(p, r, Broadcast(4.1665795894e-2f));
  p = Fma(p, r, Broadcast(1.6666665459e-1f));
  p = Fma(p, r, Broadcast(5.0000001201e-1f));
  p = Fma(p, r * r, r) + Broadcast(1.0f);
#if defined(__AVX512F__)
  return {{_mm512_scalef_ps(p.part[0], n_f32.part[0])}};
#else
  const I32x16 n = ToBits(shifted) - ToBits(magic);
  // 2^n as a product of two normal numbers, so that results may be subnormal or infinite.
  const I32x16 half = n >> 1;
  const F32x16 scale_a = FromBits((half + Broadcast(127)) << 23);
  const F32x16 scale_b = FromBits((n - half + Broadcast(127)) << 23);
  return p * scale_a * scale_b;
#endif
}

// e^x for x <= 0, as in a softmax, with an error of at most 4 ulp. It is 0 below about -104.
// exp(NaN) is NaN.
LONGSTREAM_INLINE F32x16 ExpOfNegative(const F32x16& x) {
#if defined(__AVX512F__)
  // x = (n + f) ln 2, |f| <= 1/2; 2^f by a polynomial of degree 5 that is 1 at 0 (minimax of the
  // relative error, 1.1e-7). This takes half the instructions of Exp.
  //
  // _mm512_max_ps keeps a NaN, because it is the second operand. It also bounds -inf, whose
  // fraction would be NaN.
  const __m512 bounded = _mm512_max_ps(_mm512_set1_ps(-110.0f), x.part[0]);
  const __m512 log2_e = _mm512_set1_ps(0x1.715476p0f);  // rounded; the rest is added below
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(bounded, log2_e),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f =
      _mm512_fmadd_ps(bounded, _mm512_set1_ps(0x1.4ae0cp-26f), _mm512_fmsub_ps(bounded, log2_e, n));
  __m512 p = _mm512_set1_ps(0x1.5bb966p-10f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3cea76p-7f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c6b754p-5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebf9bcp-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e42ap-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return {{_mm512_scalef_ps(p, n)}};
#else
  return Exp(x);
#endif
}

// e^(x - top) for x <= top, as in a softmax, with an error of at most 4 + 2 |x - top| + |top| ulp.
// It is 0 for x = -inf, and NaN for NaN. It takes fewer instructions than ExpOfNegative if many x
// have one `top`. REQUIRES: |top| < 2^126, or each x is -inf or NaN
LONGSTREAM_INLINE F32x16 ExpOfDifference(const F32x16& x, const F32x16& top) {
#if defined(__AVX512DQ__)
  // t = (x - top) log2(e) = n + f, 0 <= f < 1; 2^f by a polynomial of degree 5 that is 1 at 0
  // (minimax of the relative error, 8.2e-8). scalef takes n from t. Where t is -inf, f is 0.
  //
  // _mm512_max_ps keeps a NaN, because it is the second operand. -inf - -inf would be NaN.
  const __m512 log2_e = _mm512_set1_ps(0x1.715476p0f);
  const __m512 scaled_top =
      _mm512_max_ps(_mm512_set1_ps(-0x1.fffffep127f), _mm512_mul_ps(top.part[0], log2_e));
  const __m512 t = _mm512_fmsub_ps(x.part[0], log2_e, scaled_top);
  const __m512 f = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps(0x1.e974fcp-10f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.277854p-7f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c91ce6p-5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebdb56p-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e4bap-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return {{_mm512_scalef_ps(p, t)}};
#else
  return ExpOfNegative(x - top);
#endif
}

// ln x with an error of at most 2 ulp. ln 0 = -inf and ln inf = inf. The result is NaN for a
// negative number or NaN.
//
// x = 2^e m, sqrt(1/2) <= m < sqrt(2); ln m by a polynomial of degree 10 (Cephes logf).
LONGSTREAM_INLINE F32x16 Log(const F32x16& x) {
  const F32x16 zero = Zero();
  const F32x16 infinity = Broadcast(std::numeric_limits<float>::infinity());
  const I32x16 tiny = x < Broadcast(0x1p-126f);  // subnormal: scaled into range
  const F32x16 normal = Select(tiny, x * Broadcast(0x1p23f), x);
  const I32x16 cut = Broadcast(0x3f3504f3);  // the bits of sqrt(1/2)
  const I32x16 above_cut = ToBits(normal) - cut;
  const F32x16 e = ToF32(above_cut >> 23) - Select(tiny, Broadcast(23.0f), zero);
  const F32x16 m = FromBits((above_cut & Broadcast(0x007fffff)) + cut);
  const F32x16 r = m - Broadcast(1.0f);
  F32x16 p = Broadcast(7.0376836292e-2f);
  p = Fma(p, r, Broadcast(-1.1514610310e-1f));
  p = Fma(p, r, Broadcast(1.1676998740e-1f));
  p = Fma(p, r, Broadcast(-1.2420140846e-1f));
  p = Fma(p, r, Broadcast(1.4249322787e-1f));
  p = Fma(p, r, Broadcast(-1.6668057665e-1f));
  p = Fma(p, r, Broadcast(2.0000714765e-1f));
  p = Fma(p, r, Broadcast(-2.4999993993e-1f));
  p = Fma(p, r, Broadcast(3.3333331174e-1f));
  const F32x16 r2 = r * r;
  F32x16 y = p * r * r2;
  y = Fma(e, Broadcast(-2.12194440e-4f), y);  // ln 2 in two parts, as in Exp
  y = Fma(r2, Broadcast(-0.5f), y);
  y = Fma(e, Broadcast(0.693359375f), r + y);
  y = Select(x == infinity, infinity, y);
  y = Select(x == zero, zero - infinity, y);
  return Select(x >= zero, y, Broadcast(std::numeric_limits<float>::quiet_NaN()));
}

// 1 / (1 + e^-x) with an error of at most 3 ulp for x > -87; 0 below about -88.7.
LONGSTREAM_INLINE F32x16 Sigmoid(const F32x16& x) {
  const F32x16 one = Broadcast(1.0f);
  return one / (one + Exp(Zero() - x));
}

// tanh x with an error of at most 4 ulp.
LONGSTREAM_INLINE F32x16 Tanh(const F32x16& x) {
  // Near 0, tanh x is an odd polynomial (Cephes tanhf), which has no cancellation. Elsewhere it is
  // computed from e^(2 x).
  const F32x16 square = x * x;
  F32x16 p = Broadcast(-5.70498872745e-3f);
  p = Fma(p, square, Broadcast(2.06390887954e-2f));
  p = Fma(p, square, Broadcast(-5.37397155531e-2f));
  p = Fma(p, square, Broadcast(1.33314422036e-1f));
  p = Fma(p, square, Broadcast(-3.33332819422e-1f));
  const F32x16 near_zero = Fma(p * square, x, x);
  const F32x16 one = Broadcast(1.0f);
  const F32x16 away = one - Broadcast(2.0f) / (one + Exp(x + x));
  return Select(square < Broadcast(0.625f * 0.625f), near_zero, away);
}

// erf x with an error of at most 3e-7.
LONGSTREAM_INLINE F32x16 Erf(const F32x16& x) {
  // Near 0, erf x is the sum of the first terms of its series, which do not cancel. Elsewhere it is
  // the formula 7.1.26 of Abramowitz and Stegun, whose own error is 1.5e-7.
  const F32x16 square = x * x;
  F32x16 series = Broadcast(-1.0f / 75600.0f);
  series = Fma(series, square, Broadcast(1.0f / 9360.0f));
  series = Fma(series, square, Broadcast(-1.0f / 1320.0f));
  series = Fma(series, square, Broadcast(1.0f / 216.0f));
  series = Fma(series, square, Broadcast(-1.0f / 42.0f));
  series = Fma(series, square, Broadcast(1.0f / 10.0f));
  series = Fma(series, square, Broadcast(-1.0f / 3.0f));
  const F32x16 near_zero = Broadcast(1.1283791671f) * Fma(series * square, x, x);
  const F32x16 magnitude = Max(x, Zero() - x);
  const F32x16 t = Broadcast(1.0f) / Fma(Broadcast(0.3275911f), magnitude, Broadcast(1.0f));
  F32x16 p = Broadcast(1.061405429f);
  p = Fma(p, t, Broadcast(-1.453152027f));
  p = Fma(p, t, Broadcast(1.421413741f));
  p = Fma(p, t, Broadcast(-0.284496736f));
  p = Fma(p, t, Broadcast(0.254829592f));
  const F32x16 erf = Broadcast(1.0f) - p * t * Exp(Zero() - square);
  const F32x16 away = Select(x < Zero(), Zero() - erf, erf);
  return Select(square < Broadcast(0.64f), near_zero, away);
}

// cap tanh(x / cap)
LONGSTREAM_INLINE F32x16 SoftCapped(const F32x16& x, float cap) {
  return Broadcast(cap) * Tanh(x / Broadcast(cap));
}

inline constexpr int64_t kLineBytes = 64;  // bytes of a cache line

// Prefetches the line at `from` into the first-level cache. `from` may be any address, even an
// invalid one.
LONGSTREAM_INLINE void PrefetchL1(const void* from) {
  constexpr int kAllCaches = 3;
  __builtin_prefetch(from, 0, kAllCaches);
}
// Prefetches a line that is to be written. The caches of all other processors give up the line.
LONGSTREAM_INLINE void PrefetchToWrite(const void* to) { __builtin_prefetch(to, 1); }
// Prefetches into the second-level cache. It is for lines that would push others out of the first
// level.
LONGSTREAM_INLINE void PrefetchL2(const void* from) {
  constexpr int kSecondLevelCache = 2;
  __builtin_prefetch(from, 0, kSecondLevelCache);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SIMD_SIMD_H_
