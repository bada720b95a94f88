// How tensor cores add, as far as it is known: they round no sum to nearest.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_TENSOR_SUM_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_TENSOR_SUM_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace longstream::simt {

// The sum of kCount exact products and an f32, the last of `addends`. All addends are aligned to
// the exponent of the largest. Of each, 25 bits are kept, one more than f32 has; the rest is cut
// off. The sum is cut off to f32. (Fasi et al. 2021 measured one more bit on an A100 and none on a
// V100, in steps of 8 products. Adding all at once, as here, loses the most.) So an instruction
// errs by up to kCount + 3 times 2^-24 of its largest addend or of the sum, always to the same
// side.
//
// The loops over all addends are written so that a compiler can vectorise them for AVX2, which
// compares signed integers and converts doubles to 32-bit integers.
template <size_t kCount>
float TensorSum(const double (&addends)[kCount]) {
  // The bits of magnitudes have the order of the magnitudes; infinity and NaN are above all others.
  int64_t largest = 0;
  for (const double addend : addends) {
    const int64_t bits = std::bit_cast<int64_t>(addend) & INT64_MAX;
    largest = bits > largest ? bits : largest;
  }
  constexpr int64_t kInfinity = int64_t{0x7ff} << 52;
  if (largest == 0 || largest >= kInfinity) {
    double sum = 0;
    for (const double addend : addends) sum += addend;
    return static_cast<float>(sum);
  }
  constexpr int kBits = 24;
  // 2^(kBits - exponent of the largest addend), made from its bits.
  constexpr int64_t kBias = 1023;
  const int64_t exponent = largest >> 52;
  const auto scale = std::bit_cast<double>((2 * kBias + kBits - exponent) << 52);
  static_assert(kCount << (kBits + 1) <= INT32_MAX);  // scaled, an addend is below 2^(kBits + 1)
  int32_t sum = 0;
  for (const double addend : addends) sum += static_cast<int32_t>(addend * scale);
  const double cut = static_cast<double>(sum) / scale;
  const auto nearest = static_cast<float>(cut);
  if (std::fabs(static_cast<double>(nearest)) <= std::fabs(cut)) return nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(nearest) - 1);
}

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_TENSOR_SUM_H_
