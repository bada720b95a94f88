// What the parts of gpu_bench share: the GPU, memory on it, batches, medians, and the two
// yardsticks that every figure is held against, taken in the same run.
#ifndef LONGSTREAM_TESTS_BENCH_GPU_GPU_BENCH_H_
#define LONGSTREAM_TESTS_BENCH_GPU_GPU_BENCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/caches/device_memory.h"
#include "kernels/core/batch_layout.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "tests/bench/gpu/report.h"

namespace longstream {

// How much of everything is measured. A test executes all of it on the CPU with less.
struct BenchSizes {
  int64_t divisor = 1;        // of weights' widths, prompts, contexts, windows and vocabularies
  const char* shape = "14b";  // of whole steps (bench_plans.h)
  int warm_steps = 8;
  int steps = 64;  // of a round: from grid line to grid line
  int rounds = 3;  // of which the median counts
};

class GpuBench {
 public:
  // The device's memory need not be the host's.
  GpuBench(Device& device, const Executor& executor, const BenchSizes& sizes = {})
      : device_(device), executor_(executor), sizes_(sizes) {}

  Device& device() { return device_; }
  const Executor& executor() const { return executor_; }
  const BenchSizes& sizes() const { return sizes_; }
  // What is measured of a size.
  int64_t Scaled(int64_t size) const { return std::max<int64_t>(size / sizes_.divisor, 1); }
  // How many pieces of so many bytes, used in turn, leave none of them in the second-level cache.
  int64_t ColdCopies(size_t bytes) const {
    constexpr int64_t kColdBytes = int64_t{512} << 20;
    return Scaled(kColdBytes) / static_cast<int64_t>(bytes) + 2;
  }
  BenchReport& report() { return report_; }

  // Bytes per second, read and written together, of a copy within the GPU's memory.
  double copy_bandwidth() const { return copy_bandwidth_; }
  // Operations per second of a product of bf16 matrices, 8192 x 8192 x 8192.
  double product_rate() const { return product_rate_; }
  // Takes both and reports them.
  void MeasureYardsticks();

  // bf16 or f32 numbers of deviation `scale`. Like Memory, throws BackendError where there is none.
  DeviceMemory Random(DType type, int64_t count, float scale = 1.0f);
  DeviceMemory Memory(size_t size) { return {device_, size, "a benchmark"}; }
  void FillRandom(DType type, void* data, int64_t count, float scale = 1.0f);

  // A stream with that workspace.
  Stream MakeStream(const DeviceMemory& workspace) {
    return device_.MakeStream(executor_, workspace.data(), workspace.size());
  }

  // Median seconds of run(stream, i), i = 0, 1, ...: what it starts on the stream. Calls follow
  // each other without a wait, after one that warms up. i tells which copy of its data to use, so
  // that caches are cold. Throws BackendError where an op or the GPU reports a failure.
  double MedianSeconds(Stream& stream, int count,
                       const std::function<void(Stream& stream, int i)>& run);

 private:
  double MeasureCopy();
  double MeasureProduct();

  Device& device_;
  const Executor executor_;
  const BenchSizes sizes_;
  BenchReport report_;
  double copy_bandwidth_ = 0;
  double product_rate_ = 0;
  uint64_t next_seed_ = 1;
};

// A step's descriptors on the GPU. Pages are numbered through, sequence after sequence.
class GpuBatch {
 public:
  struct Sequence {
    int64_t context = 0;  // tokens after the step
    int32_t rows = 1;
    bool is_decode = true;
  };

  GpuBatch(Device& device, const std::vector<Sequence>& sequences);

  const BatchLayout& layout() const { return layout_; }
  int64_t num_pages() const { return num_pages_; }
  int64_t max_position() const { return max_position_; }

 private:
  DeviceMemory memory_;
  BatchLayout layout_;
  int64_t num_pages_ = 0;
  int64_t max_position_ = 0;
};

// Fills `count` numbers, bf16 or f32, on a stream; counter-based, the same for the same seed.
void FillRandom(Stream& stream, DType type, void* data, int64_t count, float scale, uint64_t seed);

// Throws BackendError with that sentence.
[[noreturn]] void FailBenchmark(const std::string& sentence);

// The parts. Each adds rows to the report; what cannot be measured says so there.
void BenchProjections(GpuBench& bench);
void BenchAttention(GpuBench& bench);
void BenchRecurrence(GpuBench& bench);
void BenchSampling(GpuBench& bench);
void BenchSteps(GpuBench& bench);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_GPU_GPU_BENCH_H_
