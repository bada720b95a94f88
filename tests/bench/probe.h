// The most that a processor reaches with each instruction set: the yardstick of the benchmarks.
#ifndef LONGSTREAM_TESTS_BENCH_PROBE_H_
#define LONGSTREAM_TESTS_BENCH_PROBE_H_

#include <cstddef>
#include <cstdint>

namespace longstream {

struct Probe {
  // Reads `bytes`, a multiple of 1024. The result keeps the compiler from removing the reads.
  float (*read)(const void* data, size_t bytes);
  // Runs independent f32 multiply-adds in registers. Returns the number of floating point
  // operations (two per multiply-add and lane).
  double (*multiply_add_f32)(int64_t iterations, float* result);
  // Does the same with bf16 dot products; nullptr if the instruction set has none of them.
  double (*multiply_add_bf16)(int64_t iterations, float* result);
};

namespace cpu {
namespace baseline {
Probe GetProbe();
}
namespace avx2 {
Probe GetProbe();
}
namespace avx512_f32 {
Probe GetProbe();
}
namespace avx512 {
Probe GetProbe();
}
}  // namespace cpu

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_PROBE_H_
