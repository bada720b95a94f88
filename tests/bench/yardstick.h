// What the benchmarks of kernels share: pools, memory, and benchmarks of what the processor can do
// at most (read bandwidth and multiply-adds), which run first in each of them.
#ifndef LONGSTREAM_TESTS_BENCH_YARDSTICK_H_
#define LONGSTREAM_TESTS_BENCH_YARDSTICK_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/executor.h"
#include "kernels/core/stream.h"
#include "tests/bench/read_bandwidth.h"

namespace longstream {

// An executor over a pool of that many threads, which lives as long as the process.
Executor ExecutorOf(int64_t threads);

// A stream on that many threads with a workspace of its own.
struct BenchStream {
  BenchStream(int64_t threads, size_t workspace_bytes);

  Memory workspace;
  Stream stream;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_YARDSTICK_H_
