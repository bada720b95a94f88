// Lightning attention, 32 heads of 128 x 128: decoding 64 sequences at once, and prefill of a long
// prompt.
#include <cmath>
#include <string>
#include <vector>

#include "backends/common/cache/cache_layout.h"
#include "kernels/ops/op_table.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {
namespace {

constexpr int32_t kHeads = 32;
constexpr int32_t kDim = 128;
constexpr int64_t kWidth = int64_t{kHeads} * kDim;
constexpr int64_t kStateFloats = kWidth * kDim;
constexpr int64_t kSlotFloats = kStateFloats + 2 * kPrefillGrid * kWidth;
constexpr int kSequences = 64;
constexpr int64_t kPrompt = 32768;
constexpr int kDecodeRepetitions = 30;
constexpr int kPrefillRepetitions = 5;
constexpr double kLeastOfCopy = 0.80;

// The memory of one layer for a number of sequences, and the rows of a step.
class Layer {
 public:
  Layer(GpuBench& bench, int64_t slots, int64_t rows)
      : memory_(bench.Random(DType::kF32, slots * kSlotFloats)),
        q_(bench.Random(DType::kF32, rows * kWidth)),
        k_(bench.Random(DType::kF32, rows * kWidth)),
        v_(bench.Random(DType::kF32, rows * kWidth)),
        out_(bench.Memory(static_cast<size_t>(rows * kWidth) * sizeof(float))),
        log_decay_(bench.Memory(kHeads * sizeof(float))),
        rows_(rows) {
    std::vector<float> decay(kHeads);
    for (int h = 0; h < kHeads; ++h)
      decay[static_cast<size_t>(h)] = -std::exp2(-0.25f * static_cast<float>(h + 1));
    bench.device().Upload(log_decay_.data(), decay.data(), decay.size() * sizeof(float));
    bench.device().Synchronize();
  }

  LinearRecurrenceArgs Args(const BatchLayout& batch) const {
    LinearRecurrenceArgs args;
    args.batch = batch;
    args.q = Rows(q_);
    args.k = Rows(k_);
    args.v = Rows(v_);
    args.log_decay = reinterpret_cast<const float*>(log_decay_.data());
    args.scale = 0.08838835f;  // 1 / sqrt(128)
    args.cache.state = memory_.data();
    args.cache.keys = memory_.data() + kStateFloats * int64_t{sizeof(float)};
    args.cache.values = args.cache.keys + kPrefillGrid * kWidth * int64_t{sizeof(float)};
    args.cache.slot_stride = kSlotFloats * int64_t{sizeof(float)};
    args.cache.grid = kPrefillGrid;
    args.cache.num_heads = args.cache.num_kv_heads = kHeads;
    args.cache.key_dim = args.cache.value_dim = kDim;
    args.out = Rows(out_);
    return args;
  }

 private:
  Matrix Rows(const DeviceMemory& memory) const {
    return {memory.data(), DType::kF32, rows_, kWidth, kWidth};
  }

  DeviceMemory memory_;
  DeviceMemory q_;
  DeviceMemory k_;
  DeviceMemory v_;
  DeviceMemory out_;
  DeviceMemory log_decay_;
  int64_t rows_;
};

// Sequences at all distances from their last grid line, as in a served batch. What must be moved:
// the states, the rows since the grid line, the step's own rows in and out; at a grid line's end
// the state is written.
void BenchDecode(GpuBench& bench, const std::string& name) {
  std::vector<GpuBatch::Sequence> sequences;
  int64_t floats = 0;
  for (int i = 0; i < kSequences; ++i) {
    const int64_t since = i % kPrefillGrid;
    sequences.push_back({.context = 100 * kPrefillGrid + since + 1});
    floats += kStateFloats + 2 * since * kWidth + 6 * kWidth;
    if (since == kPrefillGrid - 1) floats += kStateFloats;
  }
  const GpuBatch batch(bench.device(), sequences);
  const Layer layers[2] = {Layer(bench, kSequences, kSequences),
                           Layer(bench, kSequences, kSequences)};
  const DeviceMemory workspace =
      bench.Memory(LinearRecurrenceWorkspace(kSequences, kHeads, kPrefillGrid, kDim));
  Stream stream = bench.MakeStream(workspace);
  const double seconds = bench.MedianSeconds(stream, kDecodeRepetitions, [&](Stream& on, int i) {
    DeviceOps().linear_recurrence(on, layers[i % 2].Args(batch.layout()));
  });
  bench.report().Add(
      {.name = name,
       .value = 1e6 * seconds,
       .against = "copy",
       .fraction = static_cast<double>(floats) * sizeof(float) / seconds / bench.copy_bandwidth(),
       .least = kLeastOfCopy});
}

void BenchPrefill(GpuBench& bench, const std::string& name) {
  const GpuBatch batch(
      bench.device(),
      {{.context = kPrompt, .rows = static_cast<int32_t>(kPrompt), .is_decode = false}});
  const Layer layer(bench, 1, kPrompt);
  const DeviceMemory workspace =
      bench.Memory(LinearRecurrenceWorkspace(kPrompt, kHeads, kPrefillGrid, kDim));
  Stream stream = bench.MakeStream(workspace);
  const double seconds = bench.MedianSeconds(stream, kPrefillRepetitions, [&](Stream& on, int) {
    DeviceOps().linear_recurrence(on, layer.Args(batch.layout()));
  });
  // q, k, v and out, each once.
  const double bytes = 4.0 * static_cast<double>(kPrompt * kWidth) * sizeof(float);
  bench.report().Add({.name = name,
                      .value = 1e6 * seconds,
                      .against = "copy",
                      .fraction = bytes / seconds / bench.copy_bandwidth()});
}

}  // namespace

void BenchRecurrence(GpuBench& bench) {
  const std::string decode = "RNN decode, batch 64";
  const std::string prefill = "RNN prefill 32K";
  bench.report().Measure({{.name = decode, .least = kLeastOfCopy}},
                         [&] { BenchDecode(bench, decode); });
  bench.report().Measure({{.name = prefill}}, [&] { BenchPrefill(bench, prefill); });
}

}  // namespace longstream
