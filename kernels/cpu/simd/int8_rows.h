// Rows of int8 pages: rounds numbers to int8 and converts them back (ops/cache/rope_cache_write.h).
#ifndef LONGSTREAM_KERNELS_CPU_SIMD_INT8_ROWS_H_
#define LONGSTREAM_KERNELS_CPU_SIMD_INT8_ROWS_H_

#include <cstdint>
#include <limits>

#include "kernels/cpu/simd/row_vectors.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The largest of |x[0]| ... |x[n - 1]|. If one is infinite or NaN, the result is infinite or NaN.
LONGSTREAM_INLINE float LargestMagnitude(const float* x, int64_t n) {
  // As integers, magnitudes have the same order as the numbers, and NaN comes last.
  I32x16 largest = Broadcast(0);
  ForEachRowVector(n, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    const I32x16 magnitude = ToBits(access.Read(x + i)) & Broadcast(0x7fffffff);
    largest = Select(largest < magnitude, magnitude, largest);
  });
  if (Bits(Broadcast(0x7f7fffff) < largest) == 0) return MaxLane(FromBits(largest));
  int32_t lanes[kLanes];
  Store(largest, lanes);
  int32_t most = 0;
  for (const int32_t lane : lanes) most = lane > most ? lane : most;
  float magnitude;
  __builtin_memcpy(&magnitude, &most, sizeof(magnitude));
  return magnitude;
}

// The nearest integer, ties to even. REQUIRES: |value| < 2^22
LONGSTREAM_INLINE F32x16 RoundToInteger(const F32x16& value) {
  const F32x16 magic = Broadcast(0x1.8p23f);  // adding it rounds off all fractions
  return (value + magic) - magic;
}

// Rounds x [n] to int8: writes the integers to `numbers` [n], and their scale.
LONGSTREAM_INLINE void StoreInt8Row(const float* x, int64_t n, int8_t* numbers, BF16* scale) {
  const float largest = LargestMagnitude(x, n);
  const bool finite = largest < std::numeric_limits<float>::infinity();
  StorePartial(Broadcast(finite ? largest / 127.0f : 0.0f), scale, 1);
  const F32x16 divisor = LoadPartial(scale, 1);
  const float rounded = divisor.part[0][0];
  ForEachRowVector(n, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    F32x16 number = Zero();
    if (rounded > 0.0f) {
      number = access.Read(x + i) / Broadcast(rounded);
      number = RoundToInteger(Max(Min(number, Broadcast(127.0f)), Broadcast(-127.0f)));
    }
    access.Write(number, numbers + i);
  });
  if (!finite) scale->bits = 0x7fc0;
}

// to[i] = scale * numbers[i], which is exact.
LONGSTREAM_INLINE void LoadInt8Row(const int8_t* numbers, BF16 scale, int64_t n, float* to) {
  const F32x16 factor = LoadPartial(&scale, 1);
  const F32x16 broadcast = Broadcast(factor.part[0][0]);
  ForEachRowVector(n, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    access.Write(broadcast * access.Read(numbers + i), to + i);
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SIMD_INT8_ROWS_H_
