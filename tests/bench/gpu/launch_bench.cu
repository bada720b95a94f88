// Measures what it costs to start a kernel: in a stream and in a graph, one kernel after the other
// and overlapping, with a constant size of shared memory and with alternating sizes. (An SM has one
// memory for L1 and shared memory; kernels that divide it differently may not run side by side.)
#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "tests/bench/gpu/gpu_bench.h"
#include "tests/bench/timing.h"

namespace longstream {
namespace {

constexpr int64_t kChain = 256;  // kernels of a chain: about those of a step of 40 layers
constexpr int kRounds = 8;
constexpr int64_t kBlocks = 264;
constexpr int kThreads = 256;
constexpr size_t kSmall = 4 << 10;
constexpr size_t kLarge = 72 << 10;

// Adds 1 to a number, so that each kernel needs the result of the one before it.
__global__ void __launch_bounds__(kThreads) CountKernel(int64_t* count) {
  cuda::BeginKernel();
  if (blockIdx.x == 0 && threadIdx.x == 0) *count += 1;
}

struct Chain {
  bool in_graph;
  bool overlaps;
  bool alternates;  // the size of shared memory

  std::string Name() const {
    return std::string("a kernel of a ") + (in_graph ? "graph" : "stream") +
           (overlaps ? ", overlapping" : "") + (alternates ? ", alternating memory" : "");
  }
  uint64_t Key() const {
    return (in_graph ? 4u : 0u) + (overlaps ? 2u : 0u) + (alternates ? 1u : 0u);
  }
};

Timed Run(GpuBench& bench, const Chain& chain) {
  Device& device = bench.device();
  const DeviceMemory count = bench.Memory(sizeof(int64_t));
  const int64_t kernels = std::max<int64_t>(bench.Scaled(kChain), 2);
  const auto blocks = static_cast<unsigned>(bench.Scaled(kBlocks));
  const auto work = [&] {
    Stream stream = device.MakeStream(bench.executor(), nullptr, 0);
    stream.overlaps = stream.overlaps && chain.overlaps;
    for (int64_t i = 0; i < kernels; ++i) {
      const size_t shared = chain.alternates && i % 2 == 1 ? kLarge : kSmall;
      cuda::Launch(stream, {blocks, kThreads, shared}, CountKernel,
                   reinterpret_cast<int64_t*>(count.data()));
    }
    return stream.status;
  };
  const auto once = [&] {
    const OpStatus status = chain.in_graph ? device.Repeat(chain.Key(), work) : work();
    if (status != OpStatus::kOk) FailBenchmark("a chain of kernels failed");
  };
  for (int i = 0; i < 3; ++i) once();  // the second run records the graph
  device.Synchronize();
  const double seconds = SecondsOf([&] {
    for (int i = 0; i < kRounds; ++i) once();
    if (device.Synchronize() != OpStatus::kOk) FailBenchmark("a chain of kernels failed");
  });
  int64_t counted = 0;
  device.Download(&counted, count.data(), sizeof(counted));
  device.Synchronize();
  if (counted != kernels * (3 + kRounds)) FailBenchmark("a kernel of a chain did not run");
  return {.seconds = seconds / static_cast<double>(kernels * kRounds)};
}

}  // namespace

void BenchLaunches(GpuBench& bench) {
  for (const bool in_graph : {false, true}) {
    for (const bool overlaps : {false, true}) {
      for (const bool alternates : {false, true}) {
        const Chain chain = {in_graph, overlaps, alternates};
        bench.Measure(chain.Name(), {}, [&] { return Run(bench, chain); });
      }
    }
  }
}

}  // namespace longstream
