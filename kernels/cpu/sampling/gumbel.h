// The noise of sampling for sixteen token ids at a time: Philox4x32-10 and the Gumbel distribution
// (kernels/ops/sampling/sample.h defines it).
#ifndef LONGSTREAM_KERNELS_CPU_SAMPLING_GUMBEL_H_
#define LONGSTREAM_KERNELS_CPU_SAMPLING_GUMBEL_H_

#include <cstdint>

#include "kernels/core/philox.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The high and the low words of a * factor, which are unsigned.
LONGSTREAM_INLINE void MultiplyWide(const I32x16& a, uint32_t factor, I32x16& high, I32x16& low) {
  const NativeU64 low_mask = NativeU64{} + 0xffffffffu;
  const NativeU64 b = NativeU64{} + factor;
  for (int p = 0; p < kParts; ++p) {
    const NativeU64 pairs = reinterpret_cast<NativeU64>(a.part[p]);
    const NativeU64 even = NativeMultiplyEven(pairs, b);
    const NativeU64 odd = NativeMultiplyEven(pairs >> 32, b);
    high.part[p] = reinterpret_cast<NativeI32>((even >> 32) | (odd & ~low_mask));
    low.part[p] = reinterpret_cast<NativeI32>((even & low_mask) | (odd << 32));
  }
}

// The first word of Philox4x32-10 with key (seed lo, seed hi) and counter (position lo, position
// hi, ids, 0).
LONGSTREAM_INLINE I32x16 PhiloxWord(uint64_t seed, int64_t position, const I32x16& ids) {
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  const uint64_t unsigned_position = static_cast<uint64_t>(position);
  I32x16 c0 = Broadcast(static_cast<int32_t>(static_cast<uint32_t>(unsigned_position)));
  I32x16 c1 = Broadcast(static_cast<int32_t>(static_cast<uint32_t>(unsigned_position >> 32)));
  I32x16 c2 = ids;
  I32x16 c3 = Broadcast(0);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    I32x16 high0, low0, high1, low1;
    MultiplyWide(c0, kPhiloxMultiplier0, high0, low0);
    MultiplyWide(c2, kPhiloxMultiplier1, high1, low1);
    c0 = high1 ^ c1 ^ Broadcast(static_cast<int32_t>(key0));
    c1 = low1;
    c2 = high0 ^ c3 ^ Broadcast(static_cast<int32_t>(key1));
    c3 = low0;
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return c0;
}

// -log(u) with u = (x + 1/2) / 2^32 for the unsigned words x. This is an exponential variate with
// an error of at most 6 ulp on all of its range (1e-10 to 22.9).
//
// Let y = min(u, 1 - u), which f32 holds to full precision. If u < 1/2, the result is -log(y). Else
// it is -log1p(-y). With t = 1 - y rounded, this is -log(t) y / (1 - t) (Kahan's correction), or y
// itself if t = 1.
LONGSTREAM_INLINE F32x16 Exponential(const I32x16& words) {
  const F32x16 one = Broadcast(1.0f);
  const I32x16 upper = words < Broadcast(0);  // u > 1/2
  const F32x16 integer = ToF32(Select(upper, words ^ Broadcast(-1), words));
  const F32x16 y = (integer + Broadcast(0.5f)) * Broadcast(0x1p-32f);
  const F32x16 t = Select(upper, one - y, y);
  const F32x16 log = Zero() - Log(t);
  const F32x16 corrected = Select(t == one, y, log * (y / (one - t)));
  return Select(upper, corrected, log);
}

// -log(-log(u)) for the tokens `ids` at `position`.
LONGSTREAM_INLINE F32x16 Gumbel(uint64_t seed, int64_t position, const I32x16& ids) {
  return Zero() - Log(Exponential(PhiloxWord(seed, position, ids)));
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SAMPLING_GUMBEL_H_
