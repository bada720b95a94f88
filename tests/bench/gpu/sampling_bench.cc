// Sampling one token from a vocabulary of 151936: greedily, with top-p, and with top-k before it.
// The head has just written the logits, so they are in the second-level cache.
#include <string>
#include <utility>

#include "kernels/ops/op_table.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {
namespace {

constexpr int64_t kVocabulary = 151936;
constexpr int kRepetitions = 40;
// The deviation of the logits. With it, top-p keeps some thousands of tokens.
constexpr float kDeviation = 3.0f;

Timed BenchSample(GpuBench& bench, const SamplingRow& row) {
  const int64_t vocabulary = bench.Scaled(kVocabulary);
  const DeviceMemory logits = bench.Random(DType::kF32, vocabulary, kDeviation);
  const DeviceMemory rows = bench.Memory(sizeof(row));
  const DeviceMemory sampled = bench.Memory(sizeof(int32_t));
  bench.device().Upload(rows.data(), &row, sizeof(row));
  bench.device().Synchronize();
  const double seconds =
      bench.MedianSeconds(SampleWorkspace(1, vocabulary), kRepetitions, [&](Stream& on, int) {
        DeviceOps().sample(on, {.logits = Rows(logits, DType::kF32, 1, vocabulary),
                                .rows = reinterpret_cast<const SamplingRow*>(rows.data()),
                                .num_rows = 1,
                                .sampled = reinterpret_cast<int32_t*>(sampled.data())});
      });
  return {.seconds = seconds};
}

}  // namespace

void BenchSampling(GpuBench& bench) {
  const SamplingRow top_p = {.seed = 7, .temperature = 0.8f, .top_p = 0.95f};
  SamplingRow top_k = top_p;
  top_k.top_k = 50;
  const std::pair<std::string, SamplingRow> draws[] = {
      {"sample greedy", {}}, {"sample top-p", top_p}, {"sample top-k, top-p", top_k}};
  for (const auto& draw : draws) {
    bench.Measure(draw.first, {}, [&] { return BenchSample(bench, draw.second); });
  }
}

}  // namespace longstream
