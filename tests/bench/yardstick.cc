// Makes pools and memory for benchmarks, and measures the processor's limits.
#include "tests/bench/yardstick.h"

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "kernels/core/instruction_set.h"
#include "kernels/core/limits/processors.h"
#include "kernels/core/thread_pool.h"
#include "tests/bench/amx_peak.h"
#include "tests/bench/probe.h"
#include "tests/bench/timing.h"

namespace longstream {
namespace {

constexpr size_t kPeriod = 1048583;  // Numbers(count) repeats after this many numbers
using MultiplyAddLoop = double (*)(int64_t iterations, float* result);

// Runs the loop on all threads. Returns the floating point operations of all threads together.
double MultiplyAdds(int64_t threads, MultiplyAddLoop loop) {
  std::vector<double> done(static_cast<size_t>(threads));
  ParallelFor(ExecutorOf(threads), static_cast<uint32_t>(threads), [&](uint32_t i) {
    float result;
    done[i] = loop(1000000, &result);
    benchmark::DoNotOptimize(result);
  });
  double operations = 0;
  for (const double count : done) operations += count;
  return operations;
}

void ReadBandwidthOf(benchmark::State& state) {
  const ReadBandwidth bandwidth(ExecutorOf(state.range(0)));
  for (auto _ : state) bandwidth.Read();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bandwidth.bytes()));
}

void Peak(benchmark::State& state, MultiplyAddLoop loop) {
  double operations = 0;
  for (auto _ : state) operations += MultiplyAdds(state.range(0), loop);
  state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
}

// Adds a row for each probe. An instruction set without bf16 dot products has no row PeakBF16. A
// processor without a tile unit has no rows PeakTilesBF16 and PeakTilesInt8.
bool RegisterProbes() noexcept {
  const Probe probe = DeviceProbe();
  ForThreads(benchmark::RegisterBenchmark("ReadBandwidth", ReadBandwidthOf));
  ForThreads(benchmark::RegisterBenchmark("PeakF32", Peak, probe.multiply_add_f32));
  if (probe.multiply_add_bf16 != nullptr) {
    ForThreads(benchmark::RegisterBenchmark("PeakBF16", Peak, probe.multiply_add_bf16));
  }
  if (HasAmx()) {
    ForThreads(benchmark::RegisterBenchmark("PeakTilesBF16", Peak, TileProductsBF16));
    ForThreads(benchmark::RegisterBenchmark("PeakTilesBF16/numbers", Peak, TileProductsOfNumbers));
    ForThreads(benchmark::RegisterBenchmark("PeakTilesInt8", Peak, TileProductsInt8));
  }
  return true;
}
[[maybe_unused]] const bool registered = RegisterProbes();

// The most bytes and operations per second that a number of threads reaches.
struct Limits {
  double bytes = 0;
  double f32 = 0;
  // 0: the processor has no such instructions
  double bf16 = 0;
  double tiles_bf16 = 0;
  double tiles_int8 = 0;
};

double MultiplyAddsPerSecond(int64_t threads, MultiplyAddLoop loop) {
  if (loop == nullptr) return 0;
  constexpr int kLoops = 4;  // these loops take some 10 ms
  std::vector<double> rates(3);
  for (double& rate : rates) {
    double operations = 0;
    const double seconds = SecondsOf([&] {
      for (int i = 0; i < kLoops; ++i) operations += MultiplyAdds(threads, loop);
    });
    rate = operations / seconds;
  }
  return Median(std::move(rates));
}

// The current limits. Google Benchmark calls a row several times to find its number of iterations;
// these calls follow each other at once and share one measurement.
const Limits& LimitsNow(int64_t threads) {
  struct Measured {
    explicit Measured(int64_t threads) : bandwidth(ExecutorOf(threads)) {}
    ReadBandwidth bandwidth;
    Limits limits;
    double at = 0;
  };
  constexpr double kFresh = 0.1;  // seconds for which a measurement is used again
  static std::map<int64_t, std::unique_ptr<Measured>> of_threads;
  std::unique_ptr<Measured>& measured = of_threads[threads];
  if (measured == nullptr) measured = std::make_unique<Measured>(threads);
  if (Seconds() - measured->at > kFresh) {
    const Probe probe = DeviceProbe();
    const bool tiles = HasAmx();
    measured->limits = {
        .bytes = measured->bandwidth.Measure(),
        .f32 = MultiplyAddsPerSecond(threads, probe.multiply_add_f32),
        .bf16 = MultiplyAddsPerSecond(threads, probe.multiply_add_bf16),
        .tiles_bf16 = MultiplyAddsPerSecond(threads, tiles ? TileProductsBF16 : nullptr),
        .tiles_int8 = MultiplyAddsPerSecond(threads, tiles ? TileProductsInt8 : nullptr)};
    measured->at = Seconds();
  }
  return measured->limits;
}

}  // namespace

const std::vector<int64_t>& BenchThreads() {
  static const std::vector<int64_t> threads = [] {
    const auto all = int64_t{UsableProcessors()};
    return all > 1 ? std::vector<int64_t>{1, all} : std::vector<int64_t>{1};
  }();
  return threads;
}

Executor ExecutorOf(int64_t threads) {
  static std::map<int64_t, std::unique_ptr<ThreadPool>> pools;
  std::unique_ptr<ThreadPool>& pool = pools[threads];
  if (pool == nullptr) pool = std::make_unique<ThreadPool>(static_cast<uint32_t>(threads));
  return pool->AsExecutor();
}

void ForThreads(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("threads")->ArgsProduct({BenchThreads()})->UseRealTime();
}

void ForRowsAndThreads(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "threads"})->ArgsProduct({{1, 512}, BenchThreads()})->UseRealTime();
}

std::vector<float> Numbers(int64_t count) {
  static std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i < kPeriod ? normal(engine) : values[i - kPeriod];
  }
  return values;
}

Memory BF16Numbers(int64_t count) {
  Memory memory = Allocate(static_cast<size_t>(count) * sizeof(BF16));
  const std::vector<float> values = Numbers(kPeriod);
  auto* to = reinterpret_cast<BF16*>(memory.get());
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) to[i] = ToBF16(values[i % kPeriod]);
  return memory;
}

void ReportSpeed(benchmark::State& state, int64_t threads, const Work& work, double seconds) {
  const Limits& limits = LimitsNow(threads);
  const double calls_per_second = static_cast<double>(state.iterations()) / seconds;
  if (work.bytes > 0) {
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(work.bytes));
    state.counters["of_probe"] = work.bytes * calls_per_second / limits.bytes;
  }
  if (work.flops > 0) {
    state.counters["FLOP/s"] =
        benchmark::Counter(work.flops, benchmark::Counter::kIsIterationInvariantRate);
    const double flops_per_second = work.flops * calls_per_second;
    state.counters["of_peak"] = flops_per_second / limits.f32;
    if (limits.bf16 > 0) state.counters["of_peak_bf16"] = flops_per_second / limits.bf16;
    if (limits.tiles_bf16 > 0) {
      state.counters["of_tiles_bf16"] = flops_per_second / limits.tiles_bf16;
      state.counters["of_tiles_int8"] = flops_per_second / limits.tiles_int8;
    }
  }
}

}  // namespace longstream
