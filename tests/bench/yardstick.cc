// Pools, memory, and the benchmarks of the processor itself.
#include "tests/bench/yardstick.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "tests/bench/probe.h"

namespace longstream {
namespace {

void ReadBandwidthOf(benchmark::State& state) {
  const ReadBandwidth bandwidth(ExecutorOf(state.range(0)));
  for (auto _ : state) bandwidth.Read();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bandwidth.bytes()));
}
BENCHMARK(ReadBandwidthOf)
    ->Name("ReadBandwidth")
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime();

void MultiplyAdd(benchmark::State& state, double (*loop)(int64_t, float*)) {
  if (loop == nullptr) return state.SkipWithError("the instruction set has none");
  const uint32_t threads = static_cast<uint32_t>(state.range(0));
  double operations = 0;
  for (auto _ : state) {
    std::vector<double> done(threads);
    ParallelFor(ExecutorOf(threads), threads, [&](uint32_t i) {
      float result;
      done[i] = loop(1000000, &result);
      benchmark::DoNotOptimize(result);
    });
    for (double count : done) operations += count;
  }
  state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
}
void PeakF32(benchmark::State& state) { MultiplyAdd(state, DeviceProbe().multiply_add_f32); }
void PeakBF16(benchmark::State& state) { MultiplyAdd(state, DeviceProbe().multiply_add_bf16); }
BENCHMARK(PeakF32)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(PeakBF16)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

}  // namespace

Executor ExecutorOf(int64_t threads) {
  static std::map<int64_t, std::unique_ptr<ThreadPool>> pools;
  std::unique_ptr<ThreadPool>& pool = pools[threads];
  if (pool == nullptr) pool = std::make_unique<ThreadPool>(static_cast<uint32_t>(threads));
  return pool->AsExecutor();
}

BenchStream::BenchStream(int64_t threads, size_t workspace_bytes)
    : workspace(Allocate(workspace_bytes)) {
  stream.executor = ExecutorOf(threads);
  stream.workspace = workspace.get();
  stream.workspace_bytes = workspace_bytes;
}

}  // namespace longstream
