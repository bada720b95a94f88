// What the benchmarks of kernels share: pools, memory, and what the processor can do at most (read
// bandwidth and multiply-adds). Benchmarks of that run first in each program; besides, every row is
// held against what the probes find right behind it, because a shared machine is not the same for
// long.
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

// The numbers of threads that rows have: one, and one per logical processor.
const std::vector<int64_t>& BenchThreads();

// An executor over a pool of that many threads, which lives as long as the process.
Executor ExecutorOf(int64_t threads);

// A stream on that many threads with a workspace of its own.
struct BenchStream {
  BenchStream(int64_t threads, size_t workspace_bytes);

  Memory workspace;
  Stream stream;
};

// What one call of an op does at least.
struct Work {
  double bytes = 0;  // read and written
  double flops = 0;  // floating point operations, two a multiply-add; 0: not told
};

// A row's figures, of all its calls together: bytes_per_second and FLOP/s, and as parts of what the
// same number of threads reaches at most
//   of_probe      bytes a second of the read probe, which memory limits: more than 1 where caches
//                 hold what an op reads
//   of_peak       FLOP/s of f32 multiply-adds: more than 1 where products of bf16 or int8 take less
//                 instructions than that
//   of_peak_bf16  FLOP/s of bf16 dot products, where the instruction set has them
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
