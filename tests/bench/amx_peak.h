// The peak of the processor's tile unit (AMX), measured in registers.
#ifndef LONGSTREAM_TESTS_BENCH_AMX_PEAK_H_
#define LONGSTREAM_TESTS_BENCH_AMX_PEAK_H_

#include <cstdint>

namespace longstream {

// Run independent tile products of 16 x 16 sums in registers. Return the number of operations, two
// per multiply-add. REQUIRES: HasAmx() (kernels/core/instruction_set.h).
double TileProductsBF16(int64_t iterations, float* result);
// Like TileProductsBF16, with random numbers, which are loaded from the first-level cache for each
// four products, as in a product of matrices. The others multiply zeros, for which the processor
// seems to keep a higher clock.
double TileProductsOfNumbers(int64_t iterations, float* result);
double TileProductsInt8(int64_t iterations, float* result);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_AMX_PEAK_H_
