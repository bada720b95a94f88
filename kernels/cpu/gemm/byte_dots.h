// Dot products of the bytes of a row with the bytes of 16 outputs, as int32 sums over one group.
//
//   Dots<type> dots;  dots.Start(first);  dots.Add(w, x) ...;  dots.Total()
//
// KeepOrder after an Add makes the compiler keep the order of additions. Otherwise GCC 12 makes a
// tree of a group's additions, which may need more registers than there are.
//
// A lane of w has the bytes of four inputs of one output, as they are stored (panel.h). x has the
// same four inputs of the row, signed. For each output, the total is `first` plus all products. It
// is exact.
#ifndef LONGSTREAM_KERNELS_CPU_GEMM_BYTE_DOTS_H_
#define LONGSTREAM_KERNELS_CPU_GEMM_BYTE_DOTS_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(__AVX512VNNI__)

template <DType>
class Dots {
 public:
  LONGSTREAM_INLINE void Start(int32_t first) { sums_ = _mm512_set1_epi32(first); }
  LONGSTREAM_INLINE void Add(const I32x16& w, int32_t x) {
    sums_ = _mm512_dpbusd_epi32(sums_, reinterpret_cast<__m512i>(w.part[0]), _mm512_set1_epi32(x));
  }
  LONGSTREAM_INLINE void KeepOrder() {}  // the dot product itself adds in order
  LONGSTREAM_INLINE I32x16 Total() const { return {{reinterpret_cast<NativeI32>(sums_)}}; }

 private:
  __m512i sums_;
};

#elif defined(__AVX2__)

// Adds neighbouring 16-bit sums in each lane.
LONGSTREAM_INLINE NativeI32 SumPairs(__m256i pairs) {
  return reinterpret_cast<NativeI32>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <DType>
class Dots;

// The instruction multiplies unsigned bytes with signed ones. So it gets |x|, and w with the sign
// of x. A sum of two products is at most 2 * 127 * 127, which fits in 16 bits.
template <>
class Dots<DType::kI8> {
 public:
  LONGSTREAM_INLINE void Start(int32_t first) { sums_ = Broadcast(first); }
  LONGSTREAM_INLINE void Add(const I32x16& w, int32_t x) {
    const __m256i row = _mm256_set1_epi32(x);
    const __m256i magnitude = _mm256_abs_epi8(row);
    for (int p = 0; p < kParts; ++p) {
      const __m256i with_sign = _mm256_sign_epi8(reinterpret_cast<__m256i>(w.part[p]), row);
      sums_.part[p] = sums_.part[p] + SumPairs(_mm256_maddubs_epi16(magnitude, with_sign));
    }
  }
  LONGSTREAM_INLINE void KeepOrder() {
    for (NativeI32& sum : sums_.part) asm("" : "+x"(sum));
  }
  LONGSTREAM_INLINE I32x16 Total() const { return sums_; }

 private:
  I32x16 sums_;
};

// A 16-bit sum over a group is at most 8 * 2 * 15 * 127 = 30480.
template <>
class Dots<DType::kI4> {
 public:
  LONGSTREAM_INLINE void Start(int32_t first) {
    first_ = first;
    for (__m256i& pairs : pairs_) pairs = _mm256_setzero_si256();
  }
  LONGSTREAM_INLINE void Add(const I32x16& w, int32_t x) {
    const __m256i row = _mm256_set1_epi32(x);
    for (int p = 0; p < kParts; ++p) {
      pairs_[p] = _mm256_add_epi16(pairs_[p],
                                   _mm256_maddubs_epi16(reinterpret_cast<__m256i>(w.part[p]), row));
    }
  }
  LONGSTREAM_INLINE void KeepOrder() {
    for (__m256i& pairs : pairs_) asm("" : "+x"(pairs));
  }
  LONGSTREAM_INLINE I32x16 Total() const {
    I32x16 total = Broadcast(first_);
    for (int p = 0; p < kParts; ++p) total.part[p] = total.part[p] + SumPairs(pairs_[p]);
    return total;
  }

 private:
  int32_t first_;
  __m256i pairs_[kParts];
};

#else  // SSE2 multiplies 16-bit numbers

// The bytes of an int4 are below 16, so both types can be widened as signed bytes. An output's four
// products become two sums. The sums of two outputs fill a register.
template <DType>
class Dots {
 public:
  LONGSTREAM_INLINE void Start(int32_t first) {
    first_ = first;
    for (int p = 0; p < kParts; ++p) low_[p] = high_[p] = _mm_setzero_si128();
  }
  LONGSTREAM_INLINE void Add(const I32x16& w, int32_t x) {
    const __m128i row = WidenLow(_mm_set1_epi32(x));
    for (int p = 0; p < kParts; ++p) {
      const __m128i bytes = reinterpret_cast<__m128i>(w.part[p]);
      low_[p] = _mm_add_epi32(low_[p], _mm_madd_epi16(WidenLow(bytes), row));
      high_[p] = _mm_add_epi32(high_[p], _mm_madd_epi16(WidenHigh(bytes), row));
    }
  }
  LONGSTREAM_INLINE void KeepOrder() {}
  LONGSTREAM_INLINE I32x16 Total() const {
    I32x16 total = Broadcast(first_);
    for (int p = 0; p < kParts; ++p) {
      const __m128 low = _mm_castsi128_ps(low_[p]), high = _mm_castsi128_ps(high_[p]);
      const auto even = reinterpret_cast<NativeI32>(_mm_shuffle_ps(low, high, 0x88));
      const auto odd = reinterpret_cast<NativeI32>(_mm_shuffle_ps(low, high, 0xdd));
      total.part[p] = total.part[p] + even + odd;
    }
    return total;
  }

 private:
  LONGSTREAM_INLINE static __m128i WidenLow(__m128i bytes) {
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
  }
  LONGSTREAM_INLINE static __m128i WidenHigh(__m128i bytes) {
    return _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8);
  }

  int32_t first_;
  __m128i low_[kParts];
  __m128i high_[kParts];
};

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_GEMM_BYTE_DOTS_H_
