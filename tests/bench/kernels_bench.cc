// Measures products with weights and sampling on this processor, and compares their speed to the
// processor's limits (yardstick.h).
//
// The argument `threads` is the size of the pool. LONGSTREAM_ISA chooses the instruction set.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "kernels/ops/op_table.h"
#include "tests/bench/bench_weights.h"
#include "tests/bench/yardstick.h"

namespace longstream {
namespace {

constexpr int64_t kInputs = 1024;
constexpr int64_t kVocabulary = 151936;

// The work of a product of `rows` rows and a matrix of `weights` numbers. The matrix has `bytes`
// bytes, which are read once.
Work ProductWork(int64_t rows, int64_t weights, size_t bytes) {
  return {.bytes = static_cast<double>(bytes), .flops = 2.0 * static_cast<double>(rows * weights)};
}

// Arguments: rows, outputs, threads. bytes_per_second counts the weight once per call.
void Project(benchmark::State& state, DType type) {
  const int64_t rows = state.range(0), outputs = state.range(1);
  const BenchWeights& weights = BenchWeights::Of(type, outputs, kInputs);
  std::vector<float> x(static_cast<size_t>(rows * kInputs), 0.5f);
  std::vector<float> out(static_cast<size_t>(rows * outputs));
  std::vector<float> norm_weight(kInputs, 1.0f);
  const LinearRows in = {.x = Rows(x, rows, kInputs), .norm = {norm_weight.data(), kInputs, 1e-6f}};
  LinearArgs args;
  args.out = Rows(out, rows, outputs);
  int64_t call = 0;
  MeasureOp(state, state.range(2), LinearWorkspace(rows, kInputs),
            ProductWork(rows, outputs * kInputs, weights.bytes()), [&](Stream& stream) {
              args.in = {in, weights[call++]};
              DeviceOps().linear(stream, args);
            });
}
void ProjectionSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "outputs", "threads"})->UseRealTime();
  for (int64_t threads : BenchThreads()) {
    for (int64_t rows : {1, 2, 4, 8, 16, 64, 256, 512}) benchmark->Args({rows, 3072, threads});
    for (int64_t rows : {1, 16}) benchmark->Args({rows, kVocabulary, threads});
  }
}
void BlockSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "threads"})
      ->ArgsProduct({{1, 16, 512}, BenchThreads()})
      ->UseRealTime();
}
BENCHMARK_CAPTURE(Project, bf16, DType::kBF16)->Apply(ProjectionSizes);
BENCHMARK_CAPTURE(Project, f32, DType::kF32)->Apply(ProjectionSizes);
BENCHMARK_CAPTURE(Project, f16, DType::kF16)->Apply(ProjectionSizes);
BENCHMARK_CAPTURE(Project, int8, DType::kI8)->Apply(ProjectionSizes);
BENCHMARK_CAPTURE(Project, int4, DType::kI4)->Apply(ProjectionSizes);

constexpr int64_t kHidden = 3072;

// Arguments: rows, threads. Runs the first half of a gated MLP, which prepares its rows for the
// second half.
void GatedMlp(benchmark::State& state, DType type) {
  const int64_t rows = state.range(0);
  const BenchWeights& weights = BenchWeights::Of(type, kHidden, kInputs);
  std::vector<float> x(static_cast<size_t>(rows * kInputs), 0.5f);
  std::vector<float> out(PreparedBytes(rows, kHidden) / sizeof(float));
  std::vector<float> norm_weight(kInputs, 1.0f);
  const LinearRows in = {.x = Rows(x, rows, kInputs), .norm = {norm_weight.data(), kInputs, 1e-6f}};
  LinearArgs args;
  args.activation = Activation::kSilu;
  // To prepare rows, the op reads the type and the shape of this weight.
  const PackedWeight reader = {weights[0].data, type, kInputs, kHidden};
  int64_t call = 0;
  const Work work = ProductWork(rows, 2 * kHidden * kInputs, 2 * weights.bytes());
  MeasureOp(state, state.range(1), LinearWorkspace(rows, kInputs, kHidden), work,
            [&](Stream& stream) {
              args.in = {in, weights[call++]};
              args.up = weights[call++];
              LinearFor(reader, rows, out.data(), DeviceOps().linear, stream, args);
            });
}
BENCHMARK_CAPTURE(GatedMlp, bf16, DType::kBF16)->Apply(BlockSizes);
BENCHMARK_CAPTURE(GatedMlp, int8, DType::kI8)->Apply(BlockSizes);
BENCHMARK_CAPTURE(GatedMlp, int4, DType::kI4)->Apply(BlockSizes);

// Arguments: rows, threads. The second half of an MLP: adds its product with prepared rows to the
// residual stream.
void ProjectBack(benchmark::State& state, DType type) {
  const int64_t rows = state.range(0);
  const BenchWeights& weights = BenchWeights::Of(type, kInputs, kHidden);
  std::vector<float> in(PreparedBytes(rows, kHidden) / sizeof(float), 0.5f);
  std::vector<float> x(static_cast<size_t>(rows * kInputs));
  // This op stands for the first half of the MLP. It prepares nothing, so the rows stay as they
  // are.
  const LinearFunction prepares_nothing = [](Stream&, const LinearArgs&) {};
  LinearArgs args;
  args.scale = 1e-6f;
  args.accumulate = true;
  args.out = Rows(x, rows, kInputs);
  int64_t call = 0;
  MeasureOp(state, state.range(1), LinearWorkspace(rows, kHidden),
            ProductWork(rows, kHidden * kInputs, weights.bytes()), [&](Stream& stream) {
              args.in = LinearFor(weights[call++], rows, in.data(), prepares_nothing, stream,
                                  LinearArgs());
              DeviceOps().linear(stream, args);
            });
}
BENCHMARK_CAPTURE(ProjectBack, bf16, DType::kBF16)->Name("ProjectResidual/bf16")->Apply(BlockSizes);
BENCHMARK_CAPTURE(ProjectBack, int8, DType::kI8)->Name("ProjectResidual/int8")->Apply(BlockSizes);
BENCHMARK_CAPTURE(ProjectBack, int4, DType::kI4)->Name("ProjectResidual/int4")->Apply(BlockSizes);

// Samples from one row of logits N(0, 3) of a large vocabulary, on one thread. The work is the
// bytes of the logits.
void Sample(benchmark::State& state, const SamplingRow& parameters) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = normal(engine);
  SamplingRow row = parameters;
  int32_t sampled = 0;
  MeasureOp(state, 1, SampleWorkspace(1, kVocabulary), {.bytes = kVocabulary * sizeof(float)},
            [&](Stream& stream) {
              ++row.position;
              DeviceOps().sample(stream, {Rows(logits, 1, kVocabulary), &row, 1, &sampled});
              benchmark::DoNotOptimize(sampled);
            });
}
BENCHMARK_CAPTURE(Sample, greedy, SamplingRow{});
BENCHMARK_CAPTURE(Sample, temperature, SamplingRow{.temperature = 1.0f});
BENCHMARK_CAPTURE(Sample, top_k_50, SamplingRow{.temperature = 1.0f, .top_k = 50});
BENCHMARK_CAPTURE(Sample, top_p_95, SamplingRow{.temperature = 1.0f, .top_p = 0.95f});
BENCHMARK_CAPTURE(Sample, top_p_95_flat, SamplingRow{.temperature = 100.0f, .top_p = 0.95f});
BENCHMARK_CAPTURE(Sample, min_p_05, SamplingRow{.temperature = 1.0f, .min_p = 0.05f});

}  // namespace
}  // namespace longstream
