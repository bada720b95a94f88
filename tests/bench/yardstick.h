// The common part of kernel benchmarks: pools, memory, and the processor's limits (read bandwidth
// and multiply-adds). Each program measures the limits first. Every row is also compared to probes
// that run right after it, because the speed of a shared machine changes.
#ifndef LONGSTREAM_TESTS_BENCH_YARDSTICK_H_
#define LONGSTREAM_TESTS_BENCH_YARDSTICK_H_

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/executor.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "tests/bench/read_bandwidth.h"
#include "tests/bench/timing.h"

namespace longstream {

// The numbers of threads with which benchmarks run: one thread, and one thread per logical
// processor.
const std::vector<int64_t>& BenchThreads();

// An executor over a pool of `threads` threads, which lives as long as the process.
Executor ExecutorOf(int64_t threads);

// ForThreads runs a benchmark with each number of threads. ForRowsAndThreads runs it with 1 and
// with 512 rows, each with each number of threads.
void ForThreads(benchmark::internal::Benchmark* benchmark);
void ForRowsAndThreads(benchmark::internal::Benchmark* benchmark);

// Random numbers, N(0, 1). The numbers repeat after about a million, because drawing fewer numbers
// saves time.
std::vector<float> Numbers(int64_t count);
// Random numbers N(0, 1) as bf16, in memory of the same kind as that of caches.
Memory BF16Numbers(int64_t count);

inline Matrix Rows(std::vector<float>& values, int64_t rows, int64_t cols) {
  return {values.data(), DType::kF32, rows, cols, cols};
}
inline Matrix BF16Rows(const Memory& memory, int64_t rows, int64_t cols) {
  return {memory.get(), DType::kBF16, rows, cols, cols};
}

// The least work of one call of an op.
struct Work {
  double bytes = 0;  // read and written
  double flops = 0;  // floating point operations, two per multiply-add; 0: not known
};

// Reports the figures of a row over all its calls: bytes_per_second, FLOP/s, and fractions of the
// limits that the same number of threads reaches
//   of_probe      bytes_per_second / the read probe's: more than 1 if caches hold the data
//   of_peak       FLOP/s / the peak of f32 multiply-adds: more than 1 if products of bf16 or int8
//                 take fewer instructions
//   of_peak_bf16  FLOP/s / the peak of bf16 dot products, if the instruction set has them
//   of_tiles_bf16, of_tiles_int8
//                 FLOP/s / the peak of the tile unit in bf16 or int8, if the processor has one
void ReportSpeed(benchmark::State& state, int64_t threads, const Work& work, double seconds);

// Calls `op` with a stream on `threads` threads as often as the benchmark asks for, and reports its
// speed.
template <typename Op>
void MeasureOp(benchmark::State& state, int64_t threads, size_t workspace_bytes, const Work& work,
               const Op& op) {
  const Memory workspace = Allocate(workspace_bytes);
  Stream stream;
  stream.executor = ExecutorOf(threads);
  stream.workspace = workspace.get();
  stream.workspace_bytes = workspace_bytes;
  const double seconds = SecondsOf([&] {
    for (auto _ : state) op(stream);
  });
  ReportSpeed(state, threads, work, seconds);
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_YARDSTICK_H_
