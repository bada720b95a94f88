// Recurrences: decode of 64 sequences at once with fixed decays, and prefill of a long prompt with
// fixed decays and with gates. One shape has 32 heads with states of 128 x 128, the other one head
// with a state of 1024 x 2048.
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "backends/caches/cache_layout.h"
#include "kernels/ops/op_table.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {
namespace {

constexpr int kSequences = 64;
constexpr int64_t kPrompt = 32768;
constexpr int kDecodeRepetitions = 30;
constexpr int kPrefillRepetitions = 5;
constexpr double kLeastOfCopy = 0.80;

struct Heads {
  int64_t count = 32;
  int64_t key_dim = 128;
  int64_t value_dim = 128;
  bool gated = false;

  // The count of numbers in one row.
  int64_t keys() const { return count * key_dim; }
  int64_t values() const { return count * value_dim; }
  int64_t gates() const { return gated ? keys() : 0; }
  // The count of numbers in the state of a sequence.
  int64_t state() const { return keys() * value_dim; }
  int64_t slot() const { return state() + kPrefillGrid * (keys() + values() + gates()); }
};

// The memory of one layer for a number of sequences, and the rows of a step.
class Layer {
 public:
  Layer(GpuBench& bench, const Heads& heads, int64_t slots, int64_t rows)
      : heads_(heads),
        rows_(rows),
        memory_(bench.Random(DType::kF32, slots * heads.slot())),
        q_(bench.Random(DType::kF32, rows * heads.keys())),
        k_(bench.Random(DType::kF32, rows * heads.keys())),
        v_(bench.Random(DType::kF32, rows * heads.values())),
        gates_(bench.Random(DType::kF32, rows * heads.gates())),
        out_(bench.Memory(static_cast<size_t>(rows * heads.values()) * sizeof(float))),
        log_decay_(bench.Memory(static_cast<size_t>(heads.count) * sizeof(float))) {
    std::vector<float> decay;
    for (int64_t h = 1; h <= heads.count; ++h) {
      decay.push_back(-std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(heads.count)));
    }
    bench.device().Upload(log_decay_.data(), decay.data(), decay.size() * sizeof(float));
    bench.device().Synchronize();
  }

  LinearRecurrenceArgs Args(const BatchLayout& batch) const {
    LinearRecurrenceArgs args;
    args.batch = batch;
    args.q = Rows(q_, DType::kF32, rows_, heads_.keys());
    args.k = Rows(k_, DType::kF32, rows_, heads_.keys());
    args.v = Rows(v_, DType::kF32, rows_, heads_.values());
    if (heads_.gated) {
      args.gate = Rows(gates_, DType::kF32, rows_, heads_.keys());
    } else {
      args.log_decay = reinterpret_cast<const float*>(log_decay_.data());
    }
    args.scale = 1.0f / std::sqrt(static_cast<float>(heads_.key_dim));
    args.cache.state = memory_.data();
    args.cache.keys = Behind(args.cache.state, heads_.state());
    args.cache.values = Behind(args.cache.keys, kPrefillGrid * heads_.keys());
    if (heads_.gated) {
      args.cache.gates = Behind(args.cache.values, kPrefillGrid * heads_.values());
    }
    args.cache.slot_stride = heads_.slot() * int64_t{sizeof(float)};
    args.cache.grid = kPrefillGrid;
    args.cache.num_heads = args.cache.num_kv_heads = static_cast<int32_t>(heads_.count);
    args.cache.key_dim = static_cast<int32_t>(heads_.key_dim);
    args.cache.value_dim = static_cast<int32_t>(heads_.value_dim);
    args.out = Rows(out_, DType::kF32, rows_, heads_.values());
    return args;
  }

 private:
  static std::byte* Behind(std::byte* data, int64_t floats) {
    return data + floats * int64_t{sizeof(float)};
  }

  const Heads heads_;
  const int64_t rows_;
  const DeviceMemory memory_;
  const DeviceMemory q_;
  const DeviceMemory k_;
  const DeviceMemory v_;
  const DeviceMemory gates_;
  const DeviceMemory out_;
  const DeviceMemory log_decay_;
};

size_t Workspace(const Heads& heads, int64_t rows) {
  return LinearRecurrenceWorkspace(rows, heads.count, kPrefillGrid, heads.key_dim);
}

// Decodes one row of each of many sequences. The sequences are at all distances from their last
// grid line, as in a served batch. Bytes that must move: the states, the rows since the grid line,
// the step's own rows in and out, and the new state of a sequence that reaches a grid line.
Timed BenchDecode(GpuBench& bench, const Heads& heads) {
  std::vector<GpuBatch::Sequence> sequences;
  int64_t floats = 0;
  for (int i = 0; i < kSequences; ++i) {
    const int64_t since = i % kPrefillGrid;
    sequences.push_back({.context = 100 * kPrefillGrid + since + 1});
    floats += heads.state() + since * (heads.keys() + heads.values());
    floats += 3 * (heads.keys() + heads.values());
    if (since == kPrefillGrid - 1) floats += heads.state();
  }
  const GpuBatch batch(bench.device(), sequences);
  const Layer layers[2] = {Layer(bench, heads, kSequences, kSequences),
                           Layer(bench, heads, kSequences, kSequences)};
  const double seconds =
      bench.MedianSeconds(Workspace(heads, kSequences), kDecodeRepetitions, [&](Stream& on, int i) {
        DeviceOps().linear_recurrence(on, layers[i % 2].Args(batch.layout()));
      });
  return {.seconds = seconds, .bytes = static_cast<double>(floats) * sizeof(float)};
}

Timed BenchPrefill(GpuBench& bench, const Heads& heads) {
  const int64_t tokens = bench.Scaled(kPrompt);
  const GpuBatch batch(
      bench.device(),
      {{.context = tokens, .rows = static_cast<int32_t>(tokens), .is_decode = false}});
  const Layer layer(bench, heads, 1, tokens);
  const double seconds = bench.MedianSeconds(
      Workspace(heads, tokens), kPrefillRepetitions,
      [&](Stream& on, int) { DeviceOps().linear_recurrence(on, layer.Args(batch.layout())); });
  // The bytes of q, k, gates, v and out count once.
  const int64_t floats = tokens * 2 * (heads.keys() + heads.values()) + tokens * heads.gates();
  return {.seconds = seconds, .bytes = static_cast<double>(floats) * sizeof(float)};
}

}  // namespace

void BenchRecurrence(GpuBench& bench) {
  const Heads fixed = {.count = bench.Scaled(32)};
  const Heads gated = {.count = bench.Scaled(32), .gated = true};
  const Heads one = {
      .count = 1, .key_dim = bench.Scaled(1024), .value_dim = bench.Scaled(2048), .gated = true};
  bench.Measure("RNN decode, batch 64", kLeastOfCopy, [&] { return BenchDecode(bench, fixed); });
  const std::pair<std::string, Heads> prefills[] = {{"RNN prefill 32K", fixed},
                                                    {"gated RNN prefill 32K", gated},
                                                    {"gated RNN prefill 32K, 1024 x 2048", one}};
  for (const auto& prefill : prefills) {
    bench.Measure(prefill.first, {}, [&] { return BenchPrefill(bench, prefill.second); });
  }
}

}  // namespace longstream
