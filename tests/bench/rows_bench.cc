// Measures the ops that work on each row, or on each head of a row, by itself. These ops run
// between projections and attention, and after the head. Their speed is compared to the processor's
// limits (yardstick.h).
//
// The shapes are those of Qwen3-0.6B: width 1024, 16 heads of queries and 8 of keys and values with
// 128 numbers each, vocabulary 151936. The argument `rows` is 1 for a decode step. An op's reads
// and writes count once. The previous op leaves activations in a cache, so of_probe may exceed 1.
// LONGSTREAM_ISA chooses the instruction set.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/ops/op_table.h"
#include "tests/bench/bench_weights.h"
#include "tests/bench/step.h"
#include "tests/bench/yardstick.h"

namespace longstream {
namespace {

constexpr int64_t kWidth = 1024;
constexpr int32_t kHeads = 16;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kDim = 128;
constexpr int64_t kVocabulary = 151936;
constexpr int32_t kPageTokens = Step::kPageTokens;
constexpr int64_t kContext = 4096;  // positions before the rows
// Caches and tables are as large as a model's, so that an op finds nothing in a processor cache.
constexpr int64_t kLayers = 16;

Work Bytes(int64_t bytes) { return {.bytes = static_cast<double>(bytes)}; }

// Returns zeroed memory for the caches of all layers.
Memory Caches(int64_t layer_bytes) {
  const auto bytes = static_cast<size_t>(layer_bytes * kLayers);
  Memory memory = Allocate(bytes);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

void Norms(benchmark::State& state) {
  const int64_t rows = state.range(0);
  std::vector<float> in = Numbers(rows * kWidth), out(in.size()), weight(kWidth, 1.0f);
  NormRowsArgs args;
  args.in = Rows(in, rows, kWidth);
  args.norm = {weight.data(), kWidth, 1e-6f};
  args.accumulate = true;
  args.out = Rows(out, rows, kWidth);
  MeasureOp(state, state.range(1), 0, Bytes(rows * kWidth * 12),
            [&](Stream& stream) { DeviceOps().norm_rows(stream, args); });
}
BENCHMARK(Norms)->Name("NormRows")->Apply(ForRowsAndThreads);

void Rotations(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const Step step(kContext + rows, rows);
  std::vector<double> inv_freq(kDim / 2, 0.37);
  std::vector<float> table(static_cast<size_t>(rows * kDim));
  RopeTableArgs args;
  args.positions = step.positions.data();
  args.num_rows = rows;
  args.inv_freq = inv_freq.data();
  args.head_dim = kDim;
  args.table = table.data();
  MeasureOp(state, state.range(1), 0, Bytes(rows * kDim * 4),
            [&](Stream& stream) { DeviceOps().rope_table(stream, args); });
}
BENCHMARK(Rotations)->Name("RopeTable")->Apply(ForRowsAndThreads);

void LogN(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const Step step(kContext + rows, rows);
  std::vector<float> out(static_cast<size_t>(rows));
  LogitScaleArgs args;
  args.positions = step.positions.data();
  args.num_rows = rows;
  args.base = 512.0;
  args.out = out.data();
  MeasureOp(state, state.range(1), 0, Bytes(rows * 12),
            [&](Stream& stream) { DeviceOps().logit_scale(stream, args); });
}
BENCHMARK(LogN)->Name("LogitScale")->Apply(ForRowsAndThreads);

// Norms and rotates each head and writes the keys and values into pages. Each call writes the pages
// of another layer.
void WriteCache(benchmark::State& state, DType type) {
  const int64_t rows = state.range(0);
  const Step step(kContext + rows, rows);
  const int64_t store = step.num_pages() * kKvHeads * PagedHeadBytes(type, kPageTokens, kDim);
  const Memory keys = Caches(store), values = Caches(store);
  std::vector<float> q = Numbers(rows * kHeads * kDim);
  std::vector<float> k = Numbers(rows * kKvHeads * kDim), v = k, out(q.size());
  std::vector<float> rope = Numbers(rows * kDim), weight(kDim, 1.0f);
  RopeCacheWriteArgs args;
  args.batch = step.layout();
  args.num_heads = kHeads;
  args.num_kv_heads = kKvHeads;
  args.head_dim = args.value_dim = kDim;
  args.q = Rows(q, rows, kHeads * kDim);
  args.k = Rows(k, rows, kKvHeads * kDim);
  args.v = Rows(v, rows, kKvHeads * kDim);
  args.q_norm = args.k_norm = {weight.data(), kDim, 1e-6f};
  args.rope_q = args.rope_k = rope.data();
  args.q_out = Rows(out, rows, kHeads * kDim);
  int64_t layer = 0;
  const Work work = Bytes(rows * ((2 * kHeads + 2 * kKvHeads) * kDim * 4 +
                                  2 * kKvHeads * PagedHeadBytes(type, 1, kDim)));
  MeasureOp(state, state.range(1), 0, work, [&](Stream& stream) {
    args.paged = {keys.get() + layer * store,
                  values.get() + layer * store,
                  type,
                  kPageTokens,
                  kKvHeads,
                  kDim};
    DeviceOps().rope_cache_write(stream, args);
    layer = (layer + 1) % kLayers;
  });
}
BENCHMARK_CAPTURE(WriteCache, bf16, DType::kBF16)
    ->Name("RopeCacheWrite/bf16")
    ->Apply(ForRowsAndThreads);
BENCHMARK_CAPTURE(WriteCache, int8, DType::kI8)
    ->Name("RopeCacheWrite/int8")
    ->Apply(ForRowsAndThreads);

void WriteRing(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const Step step(kContext + rows, rows);
  constexpr int32_t kSlots = 512 + 64;
  constexpr int64_t kStore = int64_t{kSlots} * kKvHeads * kDim * 2;
  const Memory keys = Caches(kStore), values = Caches(kStore);
  const Memory k = BF16Numbers(rows * kKvHeads * kDim), v = BF16Numbers(rows * kKvHeads * kDim);
  RingWriteArgs args;
  args.batch = step.layout();
  args.k = BF16Rows(k, rows, kKvHeads * kDim);
  args.v = BF16Rows(v, rows, kKvHeads * kDim);
  int64_t layer = 0;
  MeasureOp(state, state.range(1), 0, Bytes(rows * 2 * kKvHeads * kDim * 4), [&](Stream& stream) {
    args.ring = {keys.get() + layer * kStore,
                 values.get() + layer * kStore,
                 0,
                 DType::kBF16,
                 kSlots,
                 kKvHeads,
                 kDim};
    DeviceOps().ring_write(stream, args);
    layer = (layer + 1) % kLayers;
  });
}
BENCHMARK(WriteRing)->Name("RingWrite")->Apply(ForRowsAndThreads);

// Rebuilds the near keys of a ReRoPE window, as after a fork or a deep rollback.
void RebuildRing(benchmark::State& state) {
  constexpr int32_t kWindow = 256;
  const Step step(kContext + 1, 1);
  const int64_t store =
      step.num_pages() * kKvHeads * PagedHeadBytes(DType::kBF16, kPageTokens, kDim);
  const Memory keys = Caches(store);
  std::vector<BF16> ring(static_cast<size_t>(kWindow + 64) * kKvHeads * kDim);
  std::vector<float> rope = Numbers(kWindow * kDim);
  RingRebuildArgs args;
  args.page_table = step.pages.data();
  args.ring = {reinterpret_cast<std::byte*>(ring.data()),
               nullptr,
               0,
               DType::kBF16,
               kWindow + 64,
               kKvHeads,
               kDim};
  args.begin = kContext - kWindow;
  args.end = kContext;
  args.rope = rope.data();
  int64_t layer = 0;
  MeasureOp(state, state.range(0), 0, Bytes(int64_t{kWindow} * kKvHeads * kDim * 4),
            [&](Stream& stream) {
              args.cache = {
                  keys.get() + layer * store, nullptr, DType::kBF16, kPageTokens, kKvHeads, kDim};
              DeviceOps().ring_rebuild(stream, args);
              layer = (layer + 1) % kLayers;
            });
}
BENCHMARK(RebuildRing)->Name("RingRebuild")->Apply(ForThreads);

// Looks up embeddings. Every step looks up other tokens.
void Lookup(benchmark::State& state, DType type) {
  const int64_t rows = state.range(0);
  std::vector<int32_t> ids(static_cast<size_t>(kVocabulary + rows));
  std::mt19937 engine(1);
  for (int32_t& id : ids) id = static_cast<int32_t>(engine() % kVocabulary);
  std::vector<float> out(static_cast<size_t>(rows * kWidth));
  EmbedArgs args;
  args.table = BenchWeights::Of(type, kVocabulary, kWidth)[0];
  args.out = Rows(out, rows, kWidth);
  int64_t first = 0;
  MeasureOp(state, state.range(1), 0, Bytes(rows * kWidth * 4), [&](Stream& stream) {
    args.ids = ids.data() + first;
    DeviceOps().embed(stream, args);
    first = (first + rows) % kVocabulary;
  });
}
BENCHMARK_CAPTURE(Lookup, bf16, DType::kBF16)->Name("Embed/bf16")->Apply(ForRowsAndThreads);
BENCHMARK_CAPTURE(Lookup, int4, DType::kI4)->Name("Embed/int4")->Apply(ForRowsAndThreads);

// Moves the last row of each of 16 prompts of 32 tokens to the front. The op works in place, so
// only its first call finds the original rows; every call costs the same.
void Gather(benchmark::State& state) {
  constexpr int64_t kPrompts = 16, kTokens = 32;
  std::vector<float> x = Numbers(kPrompts * kTokens * kWidth);
  std::vector<int32_t> rows;
  for (int32_t i = 1; i <= kPrompts; ++i) rows.push_back(i * int32_t{kTokens} - 1);
  const GatherRowsArgs args = {
      .x = Rows(x, kPrompts * kTokens, kWidth), .rows = rows.data(), .num_rows = kPrompts};
  MeasureOp(state, state.range(0), 0, Bytes(kPrompts * kWidth * 8),
            [&](Stream& stream) { DeviceOps().gather_rows(stream, args); });
}
BENCHMARK(Gather)->Name("GatherRows")->Apply(ForThreads);

void Activate(benchmark::State& state) {
  const int64_t rows = state.range(0);
  constexpr int64_t kValues = 2 * kWidth;
  std::vector<float> v = Numbers(rows * kValues), z = Numbers(rows * kDim), q(z.size()), k = q;
  const std::vector<float> ones(kDim, 1.0f);
  GauActivateArgs args;
  args.v = Rows(v, rows, kValues);
  args.z = Rows(z, rows, kDim);
  args.q_scale = args.q_offset = args.k_scale = args.k_offset = ones.data();
  args.q = Rows(q, rows, kDim);
  args.k = Rows(k, rows, kDim);
  MeasureOp(state, state.range(1), 0, Bytes(rows * (2 * kValues + 3 * kDim) * 4),
            [&](Stream& stream) { DeviceOps().gau_activate(stream, args); });
}
BENCHMARK(Activate)->Name("GauActivate")->Apply(ForRowsAndThreads);

// Caps one row of logits. In a model, the head has just written this row.
void Cap(benchmark::State& state) {
  std::vector<float> logits = Numbers(kVocabulary);
  const SoftCapArgs args = {.x = Rows(logits, 1, kVocabulary), .cap = 30.0f};
  MeasureOp(state, state.range(0), 0, Bytes(kVocabulary * 8),
            [&](Stream& stream) { DeviceOps().soft_cap(stream, args); });
}
BENCHMARK(Cap)->Name("SoftCap")->Apply(ForThreads);

void Finite(benchmark::State& state) {
  std::vector<float> logits = Numbers(kVocabulary);
  int32_t finite = 0;
  MeasureOp(state, state.range(0), 0, Bytes(kVocabulary * 4), [&](Stream& stream) {
    DeviceOps().finite_rows(stream, {Rows(logits, 1, kVocabulary), &finite});
  });
}
BENCHMARK(Finite)->Name("FiniteRows")->Apply(ForThreads);

void Likelihood(benchmark::State& state, int32_t num_top) {
  std::vector<float> logits = Numbers(kVocabulary);
  const LogProbsRow row = {.row = 0, .target = 7, .num_top = num_top};
  float log_prob = 0.0f;
  std::vector<TopToken> top(static_cast<size_t>(num_top) + 1);
  LogProbsArgs args;
  args.logits = Rows(logits, 1, kVocabulary);
  args.rows = &row;
  args.num_rows = 1;
  args.log_probs = &log_prob;
  args.top = top.data();
  args.top_stride = num_top;
  MeasureOp(state, state.range(0), 0, Bytes(kVocabulary * 4),
            [&](Stream& stream) { DeviceOps().log_probs(stream, args); });
}
BENCHMARK_CAPTURE(Likelihood, target, 0)->Name("LogProbs/target")->Apply(ForThreads);
BENCHMARK_CAPTURE(Likelihood, top_20, 20)->Name("LogProbs/top_20")->Apply(ForThreads);

}  // namespace
}  // namespace longstream
