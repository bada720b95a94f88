// Packed weights of random numbers, for benchmarks.
#ifndef LONGSTREAM_TESTS_BENCH_BENCH_WEIGHTS_H_
#define LONGSTREAM_TESTS_BENCH_BENCH_WEIGHTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "tests/bench/read_bandwidth.h"

namespace longstream {

// Weights [n, k] of N(0, 1) / sqrt(k), which together are as large as a head [151936, 1024]. No
// processor cache holds all of them. So a benchmark that takes another weight for every call reads
// memory, as the layers of a model do.
class BenchWeights {
 public:
  // The last weights that were asked for; earlier ones are freed.
  // REQUIRES: n * k <= 151936 * 1024.
  static const BenchWeights& Of(DType type, int64_t n, int64_t k);

  // The weight of call i = 0, 1, ...
  PackedWeight operator[](int64_t i) const;
  // Bytes that a product reads of one weight, on average.
  size_t bytes() const { return read_bytes_ / static_cast<size_t>(count_); }

 private:
  BenchWeights(DType type, int64_t n, int64_t k);

  DType type_;
  int64_t n_, k_;
  int64_t count_;
  size_t stride_;  // bytes from one weight to the next
  Memory memory_;
  size_t read_bytes_ = 0;  // of all weights together
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_BENCH_WEIGHTS_H_
