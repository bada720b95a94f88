// Pools, memory, and the benchmarks of the processor itself.
#include "tests/bench/yardstick.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "kernels/core/thread_pool.h"
#include "kernels/ops/op_table.h"
#include "tests/bench/probe.h"

namespace longstream {
namespace {

constexpr size_t kProbeBytes = size_t{512} << 20;

Probe DeviceProbe() {
  const std::string_view isa = DeviceOps().name;
  if (isa == "avx512") return cpu::avx512::GetProbe();
  if (isa == "avx2") return cpu::avx2::GetProbe();
  return cpu::baseline::GetProbe();
}

void ReadBandwidth(benchmark::State& state) {
  static const Memory memory = [] {
    Memory data = Allocate(kProbeBytes);
    std::memset(data.get(), 0, kProbeBytes);
    return data;
  }();
  const Probe probe = DeviceProbe();
  constexpr uint32_t kTasks = 256;
  for (auto _ : state) {
    ParallelFor(ExecutorOf(state.range(0)), kTasks, [&](uint32_t i) {
      benchmark::DoNotOptimize(
          probe.read(memory.get() + i * (kProbeBytes / kTasks), kProbeBytes / kTasks));
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kProbeBytes));
}
BENCHMARK(ReadBandwidth)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

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

Memory Allocate(size_t bytes) {
  return Memory(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
}

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
