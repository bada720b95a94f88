// The common part of gpu_bench: the GPU, memory on it, batches, medians, and the two yardsticks to
// which every figure of a run is compared.
#ifndef LONGSTREAM_TESTS_BENCH_GPU_GPU_BENCH_H_
#define LONGSTREAM_TESTS_BENCH_GPU_GPU_BENCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/caches/device_memory.h"
#include "kernels/core/batch_layout.h"
#include "kernels/core/device.h"
#include "kernels/core/executor.h"
#include "kernels/core/matrix.h"
#include "tests/bench/gpu/report.h"

namespace longstream {

// How much is measured. A test runs everything on the CPU with smaller sizes.
struct BenchSizes {
  // Divides the widths of weights and the sizes of prompts, contexts, windows and vocabularies.
  int64_t divisor = 1;
  const char* shape = "14b";       // of whole steps (bench_plans.h)
  const char* batch_shape = "2b";  // of steps of many sequences
  int most_streams = 256;          // the most sequences of a step
  int warm_steps = 8;
  int steps = 64;  // decode steps of a round: from one grid line to the next
  int rounds = 3;  // the median round is reported
};

// The result of a benchmark: the median time of a call, and the least bytes and operations that
// it needs. Bytes or operations that are 0 are not compared.
struct Timed {
  double seconds = 0;
  double bytes = 0;  // read and written
  double operations = 0;
};

class GpuBench {
 public:
  // `device` may be a GPU or the host.
  GpuBench(Device& device, const Executor& executor, const BenchSizes& sizes = {})
      : device_(device), executor_(executor), sizes_(sizes) {}

  Device& device() { return device_; }
  const Executor& executor() const { return executor_; }
  const BenchSizes& sizes() const { return sizes_; }
  // `size` scaled down by the divisor.
  int64_t Scaled(int64_t size) const { return std::max<int64_t>(size / sizes_.divisor, 1); }
  // How many copies of an array of `bytes` bytes a benchmark must use one after the other, so that
  // no copy is in the second-level cache when it is used again.
  int64_t ColdCopies(size_t bytes) const {
    constexpr int64_t kColdBytes = int64_t{512} << 20;
    return Scaled(kColdBytes) / static_cast<int64_t>(bytes) + 2;
  }
  BenchReport& report() { return report_; }
  // Adds a figure in microseconds. Compares the figure's bytes per second to the copy's, or its
  // operations per second to the product's.
  void Add(const std::string& name, const Timed& timed, std::optional<double> least = {});
  // Adds what `measure` returns as a figure; if it throws BackendError, the figure is missing.
  void Measure(const std::string& name, std::optional<double> least,
               const std::function<Timed()>& measure);

  // Bytes per second, read and written together, of a copy within the GPU's memory.
  double copy_bandwidth() const { return copy_bandwidth_; }
  // Operations per second of a product of bf16 matrices.
  double product_rate() const { return product_rate_; }
  // Measures and reports the yardsticks.
  void MeasureYardsticks();

  // bf16 or f32 numbers of deviation `scale`. Throws BackendError if there is no memory.
  DeviceMemory Random(DType type, int64_t count, float scale = 1.0f);
  DeviceMemory Memory(size_t size) { return {device_, size, "a benchmark"}; }
  void FillRandom(DType type, void* data, int64_t count, float scale = 1.0f);

  // Returns the median time, in seconds, of the work that run(stream, i) starts on a stream with
  // `workspace_bytes` of workspace. i counts the calls from 0. After a warm-up, calls follow each
  // other without a wait. i selects a copy of the data, so that caches are cold. Throws
  // BackendError if an op or the GPU reports a failure.
  double MedianSeconds(size_t workspace_bytes, int count,
                       const std::function<void(Stream& stream, int i)>& run);

 private:
  double MeasureCopy();
  double MeasureProduct();

  Device& device_;
  const Executor executor_;
  const BenchSizes sizes_;
  BenchReport report_;
  double copy_bandwidth_ = 0;
  double product_rate_ = 0;  // operations per second of a bf16 product, 8192 x 8192 x 8192
  uint64_t next_seed_ = 1;
};

// A step's descriptors on the GPU. Pages are numbered in order, sequence after sequence.
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

inline Matrix Rows(const DeviceMemory& memory, DType type, int64_t rows, int64_t cols) {
  return {memory.data(), type, rows, cols, cols};
}

// Fills `count` numbers, bf16 or f32, on a stream. The numbers depend only on the seed and their
// index.
void FillRandom(Stream& stream, DType type, void* data, int64_t count, float scale, uint64_t seed);

// Throws a BackendError with the message `sentence`.
[[noreturn]] void FailBenchmark(const std::string& sentence);

// The benchmarks. Each adds rows to the report. A figure that cannot be measured says so there.
void BenchProjections(GpuBench& bench);
void BenchAttention(GpuBench& bench);
void BenchRecurrence(GpuBench& bench);
void BenchSampling(GpuBench& bench);
void BenchLaunches(GpuBench& bench);
void BenchSteps(GpuBench& bench);
void BenchBatches(GpuBench& bench);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_GPU_GPU_BENCH_H_
