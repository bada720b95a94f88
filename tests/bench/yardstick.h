// The common part of kernel benchmarks: pools, memory, and the processor's limits (read bandwidth
// and multiply-adds). Each program measures the limits first. Every row is also compared to probes
// that run right after it, because the speed of a shared machine changes.
#ifndef LONGSTREAM_TESTS_BENCH_YARDSTICK_H_
#define LONGSTREAM_TESTS_BENCH_YARDSTICK_H_

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/executor.h"
#include "kernels/core/stream.h"
#include "tests/bench/read_bandwidth.h"

namespace longstream {

// The numbers of threads of the rows: one, and one per logical processor.
const std::vector<int64_t>& BenchThreads();

// An executor over a pool of `threads` threads, which lives as long as the process.
Executor ExecutorOf(int64_t threads);

// A stream on `threads` threads with its own workspace.
struct BenchStream {
  BenchStream(int64_t threads, size_t workspace_bytes);

  Memory workspace;
  Stream stream;
};

// The least work of one call of an op.
struct Work {
  double bytes = 0;  // read and written
  double flops = 0;  // floating point operations, two per multiply-add; 0: not known
};

// A row's figures, of all its calls together: bytes_per_second and FLOP/s, and as fractions of the
// limits for the same number of threads
//   of_probe      of the read probe's bytes per second, which memory limits: more than 1 if caches
//                 hold the data
//   of_peak       of the FLOP/s of f32 multiply-adds: more than 1 if products of bf16 or int8 take
//                 fewer instructions
//   of_peak_bf16  of the FLOP/s of bf16 dot products, if the instruction set has them
void ReportSpeed(benchmark::State& state, int64_t threads, const Work& work, double seconds);

// Calls `op` as often as the benchmark asks for, and reports its speed.
template <typename Op>
void MeasureOp(benchmark::State& state, int64_t threads, const Work& work, const Op& op) {
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) op();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  ReportSpeed(state, threads, work, time.count());
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_YARDSTICK_H_
