// Common functions of all classes for attention over int8 pages in integers: how queries and
// weights are rounded and, for the dot product of bytes (VNNI), how values of four tokens are
// interleaved.
#ifndef LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_H_
#define LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_H_

#include <cstdint>
#include <limits>

#include "kernels/cpu/attention/attention_core.h"
#include "kernels/cpu/attention/head_rows.h"
#include "kernels/cpu/simd/int8_rows.h"
#include "kernels/cpu/simd/simd.h"

#if defined(__AVX2__)

namespace longstream::cpu::LONGSTREAM_ISA {

// The largest integer of a query: 256 * 127 + 127. So each of its two bytes fits a signed byte.
inline constexpr float kMostOfQuery = 32639.0f;

// Rounds scale * q [dim] to integers times a step. Writes the integers to `numbers` and returns the
// step. The step is NaN if a q is not finite.
LONGSTREAM_INLINE float QueryNumbers(const float* q, int64_t dim, float scale, int32_t* numbers) {
  const float largest = scale * LargestMagnitude(q, dim);
  if (!(largest < std::numeric_limits<float>::infinity())) {
    for (int64_t d = 0; d < dim; ++d) numbers[d] = 0;
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float step = largest / kMostOfQuery;
  for (int64_t d = 0; d < dim; d += kLanes) {
    const int64_t left = dim - d;
    F32x16 number = Zero();
    if (step > 0.0f) {
      const F32x16 value = left >= kLanes ? Load(q + d) : LoadPartial(q + d, left);
      number = Broadcast(scale) * value / Broadcast(step);
      number = Max(Min(number, Broadcast(kMostOfQuery)), Broadcast(-kMostOfQuery));
    }
    int32_t lanes[kLanes];
    Store(ToI32(RoundToInteger(number)), lanes);
    for (int64_t i = 0; i < kLanes && i < left; ++i) numbers[d + i] = lanes[i];
  }
  return step;
}

// The largest integer of a weight that the multiply instruction accepts.
#if defined(__AVX512VNNI__)
inline constexpr float kMostOfWeight = 65535.0f;
#else
inline constexpr float kMostOfWeight = 32767.0f;
#endif

// How the weights of a block, multiplied by the scales of their values, are rounded: to integers
// from 0 to kMostOfWeight times `step`. If all of them are below 2^-100 they count as zeros, so
// that the inverse of the step is finite.
struct WeightSteps {
  F32x16 step;
  F32x16 inverse;
};
LONGSTREAM_INLINE WeightSteps WeightStepsOf(const F32x16& largest) {
  const F32x16 most = Broadcast(kMostOfWeight);
  const I32x16 tiny = largest < Broadcast(0x1p-100f);
  return {Select(tiny, Zero(), largest / most), Select(tiny, Zero(), most / largest)};
}
LONGSTREAM_INLINE I32x16 WeightNumbers(const F32x16& scaled, const F32x16& inverse) {
  return ToI32(RoundToInteger(scaled * inverse));
}

// scales[j] = the scale of row begin + j
LONGSTREAM_INLINE void LoadInt8Scales(const HeadRows& rows, int64_t begin, int64_t end,
                                      float* scales) {
  ForEachRun(rows, begin, end, [&](int64_t position, const RowRun& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      scales[position - begin + i] = longstream::ToF32(run.scales[i]);
    }
  });
}

// The weights of 16 prefill rows for a block of `count` keys, times the scales of the values. They
// are stored in place of the scores.
struct ScaledWeights {
  const float* scaled;  // [count], a vector for each key
  int64_t stride;
  int64_t count;
  F32x16 sum;  // sum of the weights, without the scales
  WeightSteps steps;

  // The integers of key j; zeros for keys after the last one.
  LONGSTREAM_INLINE I32x16 Numbers(int64_t j) const {
    if (j >= count) return Broadcast(0);
    return WeightNumbers(Load(scaled + j * stride), steps.inverse);
  }
};
// Turns scores[j * stride + r ...] into weights e^(score - max) times scales[j]. Also prefetches a
// part of `next`. The calls for all `stride` rows together prefetch all of it.
LONGSTREAM_INLINE ScaledWeights ScaleWeights(float* scores, int64_t stride, int64_t count,
                                             int64_t r, const F32x16& max, const float* scales,
                                             const Ahead& next) {
  F32x16 sum = Zero();
  I32x16 largest = Broadcast(0);
  for (int64_t j = 0; j < count; ++j) {
    next.Ask(r / kLanes * kKeyBlock + j, stride / kLanes * kKeyBlock);
    float* score = scores + j * stride + r;
    const F32x16 weight = ExpOfNegative(Load(score) - max);
    sum = sum + weight;
    const F32x16 scaled = weight * Broadcast(scales[j]);
    Store(scaled, score);
    // Magnitudes are compared by their bit patterns, which have the same order; NaN comes last
    // (LargestMagnitude).
    const I32x16 magnitude = ToBits(scaled) & Broadcast(0x7fffffff);
    largest = Select(largest < magnitude, magnitude, largest);
  }
  return {scores + r, stride, count, sum, WeightStepsOf(FromBits(largest))};
}

#if defined(__AVX512VNNI__)

LONGSTREAM_INLINE void StoreLowBytes(const I32x16& value, uint8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(value.part[0])));
}

LONGSTREAM_INLINE __m512i BroadcastQuad(const void* from) {
  int32_t quad;
  __builtin_memcpy(&quad, from, sizeof(quad));
  return _mm512_set1_epi32(quad);
}

// Interleaves 64 numbers of each of four rows. Every lane of `to` holds the four numbers of one
// dimension. InterleavedPlace gives that lane, counted through all four registers.
LONGSTREAM_INLINE void InterleaveFour(const int8_t* a, const int8_t* b, const int8_t* c,
                                      const int8_t* d, __m512i (&to)[4]) {
  const __m512i row_a = _mm512_loadu_si512(a), row_b = _mm512_loadu_si512(b);
  const __m512i row_c = _mm512_loadu_si512(c), row_d = _mm512_loadu_si512(d);
  const __m512i low_ab = _mm512_unpacklo_epi8(row_a, row_b);
  const __m512i high_ab = _mm512_unpackhi_epi8(row_a, row_b);
  const __m512i low_cd = _mm512_unpacklo_epi8(row_c, row_d);
  const __m512i high_cd = _mm512_unpackhi_epi8(row_c, row_d);
  to[0] = _mm512_unpacklo_epi16(low_ab, low_cd);
  to[1] = _mm512_unpackhi_epi16(low_ab, low_cd);
  to[2] = _mm512_unpacklo_epi16(high_ab, high_cd);
  to[3] = _mm512_unpackhi_epi16(high_ab, high_cd);
}
// Interleaving works within 128 bits. So of each 16 numbers, each register gets four.
constexpr int64_t InterleavedPlace(int64_t d) {
  const int64_t in_vector = d % 64;
  return d - in_vector + in_vector / 4 % 4 * kLanes + in_vector / 16 * 4 + in_vector % 4;
}

#else

// Adds a . b to sum for each pair of words. The asm keeps the order of additions. Without it GCC 12
// would add several products first, for which there are not enough registers.
LONGSTREAM_INLINE __m256i AddPairs(__m256i sum, const __m256i& a, const __m256i& b) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  asm("" : "+x"(sum));
  return sum;
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif

#endif  // LONGSTREAM_KERNELS_CPU_ATTENTION_ATTENTION_INT8_H_
