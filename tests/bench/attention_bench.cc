// Speed of attention and linear recurrence on this processor, compared to its limits (yardstick.h):
// decode to the read probe, prefill to the peak of f32.
//
// Heads as in Qwen3-0.6B (16 / 8 of 128), caches in bf16, pages in int8 as well. LONGSTREAM_ISA
// chooses the instruction set.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/ops/op_table.h"
#include "tests/bench/step.h"
#include "tests/bench/yardstick.h"

namespace longstream {
namespace {

constexpr int32_t kHeads = 16;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kDim = 128;
constexpr int32_t kPageTokens = Step::kPageTokens;
constexpr int32_t kGrid = 64;
// Decode reads this much cache memory before it returns to the same bytes, like a model with many
// layers.
constexpr int64_t kCacheBytes = int64_t{512} << 20;

std::vector<float> Numbers(int64_t count) {
  static std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  // A short period saves time; the values hardly matter.
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i < 4099 ? normal(engine) : values[i - 4099];
  }
  return values;
}

// bf16 N(0, 1).
Memory Cache(int64_t elements) {
  Memory memory = Allocate(static_cast<size_t>(elements) * sizeof(BF16));
  const std::vector<float> values = Numbers(4099);
  auto* to = reinterpret_cast<BF16*>(memory.get());
  for (int64_t i = 0; i < elements; ++i) to[i] = ToBF16(values[static_cast<size_t>(i % 4099)]);
  return memory;
}

// N(0, 1) as int8 with a step of 1/42; scales behind each head.
Memory Int8Pages(int64_t heads) {
  constexpr int64_t kNumbers = int64_t{kPageTokens} * kDim;
  const int64_t head_bytes = PagedHeadBytes(DType::kI8, kPageTokens, kDim);
  Memory memory = Allocate(static_cast<size_t>(heads * head_bytes));
  const std::vector<float> values = Numbers(4099);
  for (int64_t h = 0; h < heads; ++h) {
    auto* numbers = reinterpret_cast<int8_t*>(memory.get() + h * head_bytes);
    for (int64_t i = 0; i < kNumbers; ++i) {
      const float value = 42.0f * values[static_cast<size_t>((h * kNumbers + i) % 4099)];
      numbers[i] = static_cast<int8_t>(std::clamp(value, -127.0f, 127.0f));
    }
    std::fill_n(reinterpret_cast<BF16*>(numbers + kNumbers), kPageTokens, ToBF16(1 / 42.0f));
  }
  return memory;
}

// Scores per head of a causal prefill of `rows` rows that end at `context`, at most `window` per
// row.
double Scores(int64_t context, int64_t rows, int64_t window) {
  double scores = 0;
  for (int64_t p = context - rows; p < context; ++p) {
    scores += static_cast<double>(std::min(p + 1, window));
  }
  return scores;
}

// `bytes`: keys and values, read once. A score and its weighted value take two multiply-adds per
// element of a head.
Work AttentionWork(double scores, int64_t bytes) {
  return {.bytes = static_cast<double>(bytes), .flops = 4.0 * kHeads * kDim * scores};
}

// Arguments: context, rows (1: decode), threads.
void Paged(benchmark::State& state, DType type) {
  const int64_t context = state.range(0), rows = state.range(1);
  const Step step(context, rows);
  const int64_t heads = static_cast<int64_t>(step.pages.size()) * kKvHeads;
  const int64_t layer_bytes = heads * PagedHeadBytes(type, kPageTokens, kDim);
  const int64_t layers = std::max<int64_t>(1, kCacheBytes / (layer_bytes * 2));
  const auto make = [&] {
    return type == DType::kI8 ? Int8Pages(layers * heads)
                              : Cache(layers * heads * kPageTokens * kDim);
  };
  const Memory keys = make(), values = make();
  std::vector<float> q = Numbers(rows * kHeads * kDim), out(q.size());
  BenchStream bench(state.range(2), AttentionWorkspace(1, kHeads, kDim, context));
  AttentionArgs args;
  args.batch = step.layout();
  args.num_heads = kHeads;
  args.scale = 0.088f;
  args.q = {q.data(), DType::kF32, rows, kHeads * kDim, kHeads * kDim};
  args.max_position = context;
  args.out = {out.data(), DType::kF32, rows, kHeads * kDim, kHeads * kDim};
  int64_t layer = 0;
  const Work work = AttentionWork(Scores(context, rows, context),
                                  context * kKvHeads * PagedHeadBytes(type, 1, kDim) * 2);
  MeasureOp(state, state.range(2), work, [&] {
    args.keys = PagedKeys{{keys.get() + layer * layer_bytes, values.get() + layer * layer_bytes,
                           type, kPageTokens, kKvHeads, kDim}};
    DeviceOps().attention(bench.stream, args);
    layer = (layer + 1) % layers;
  });
}
void PagedSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"context", "rows", "threads"})
      ->ArgsProduct({{4096, 16384, 65536}, {1}, BenchThreads()})
      ->ArgsProduct({{512, 4096, 16384}, {16, 512}, BenchThreads()})
      ->UseRealTime();
}
BENCHMARK_CAPTURE(Paged, bf16, DType::kBF16)->Apply(PagedSizes);
BENCHMARK_CAPTURE(Paged, int8, DType::kI8)->Apply(PagedSizes);

// Arguments: context, rows, window, threads. The window's keys are in the ring and in the step.
void Window(benchmark::State& state) {
  const int64_t context = state.range(0), rows = state.range(1);
  const int32_t window = static_cast<int32_t>(state.range(2));
  const Step step(context, rows);
  const int32_t slots = window + kGrid;
  const int64_t ring = int64_t{slots} * kKvHeads * kDim;
  const Memory keys = Cache(ring), values = Cache(ring);
  const Memory k = Cache(rows * kKvHeads * kDim), v = Cache(rows * kKvHeads * kDim);
  std::vector<float> q = Numbers(rows * kHeads * kDim), out(q.size());
  BenchStream bench(state.range(3), 0);
  AttentionArgs args;
  args.batch = step.layout();
  args.num_heads = kHeads;
  args.window = window;
  args.scale = 0.088f;
  args.q = {q.data(), DType::kF32, rows, kHeads * kDim, kHeads * kDim};
  args.keys = RingKeys{{keys.get(), values.get(), 0, DType::kBF16, slots, kKvHeads, kDim},
                       {k.get(), DType::kBF16, rows, kKvHeads * kDim, kKvHeads * kDim},
                       {v.get(), DType::kBF16, rows, kKvHeads * kDim, kKvHeads * kDim}};
  args.out = {out.data(), DType::kF32, rows, kHeads * kDim, kHeads * kDim};
  const Work work =
      AttentionWork(Scores(context, rows, window), int64_t{window} * kKvHeads * kDim * 4);
  MeasureOp(state, state.range(3), work, [&] { DeviceOps().attention(bench.stream, args); });
}
BENCHMARK(Window)
    ->ArgNames({"context", "rows", "window", "threads"})
    ->ArgsProduct({{1024, 16384}, {1, 512}, {512}, BenchThreads()})
    ->UseRealTime();

// Arguments: context, rows, window, threads.
void Rerope(benchmark::State& state) {
  const int64_t context = state.range(0), rows = state.range(1);
  const int32_t window = static_cast<int32_t>(state.range(2));
  const Step step(context, rows);
  const int64_t elements = static_cast<int64_t>(step.pages.size()) * kPageTokens * kKvHeads * kDim;
  const int32_t slots = window + kGrid;
  const Memory keys = Cache(elements), values = Cache(elements);
  const Memory near = Cache(int64_t{slots} * kKvHeads * kDim);
  const Memory near_rows = Cache(rows * kKvHeads * kDim);
  std::vector<float> q = Numbers(rows * kHeads * kDim), out(q.size());
  BenchStream bench(state.range(3), AttentionWorkspace(1, kHeads, kDim, context));
  AttentionArgs args;
  args.batch = step.layout();
  args.num_heads = kHeads;
  args.scale = 0.088f;
  args.q = {q.data(), DType::kF32, rows, kHeads * kDim, kHeads * kDim};
  args.keys = FarNearKeys{window,
                          args.q,
                          {keys.get(), values.get(), DType::kBF16, kPageTokens, kKvHeads, kDim},
                          {near.get(), nullptr, 0, DType::kBF16, slots, kKvHeads, kDim},
                          {near_rows.get(), DType::kBF16, rows, kKvHeads * kDim, kKvHeads * kDim}};
  args.max_position = context;
  args.out = {out.data(), DType::kF32, rows, kHeads * kDim, kHeads * kDim};
  const Work work = AttentionWork(Scores(context, rows, context), context * kKvHeads * kDim * 4);
  MeasureOp(state, state.range(3), work, [&] { DeviceOps().attention(bench.stream, args); });
}
BENCHMARK(Rerope)
    ->ArgNames({"context", "rows", "window", "threads"})
    ->ArgsProduct({{16384}, {1, 512}, {256}, BenchThreads()})
    ->UseRealTime();

struct RecurrentShape {
  int32_t num_heads;
  int32_t key_dim;
  int32_t value_dim;
  bool gated;
};

// Reads and updates the state, whose bytes count once. In blocks, half of the scores and weighted
// values are added.
Work RecurrenceWork(const RecurrentShape& shape, int64_t rows) {
  const double per_head =
      4.0 * shape.key_dim * shape.value_dim + 1.0 * kGrid * (shape.key_dim + shape.value_dim);
  return {.bytes = 4.0 * shape.num_heads * shape.key_dim * shape.value_dim,
          .flops = per_head * shape.num_heads * static_cast<double>(rows)};
}

// Arguments: rows (1: decode), threads.
void Recurrence(benchmark::State& state, const RecurrentShape& shape) {
  const int64_t rows = state.range(0);
  const int64_t q_width = int64_t{shape.num_heads} * shape.key_dim;
  const int64_t v_width = int64_t{shape.num_heads} * shape.value_dim;
  const int64_t state_floats = q_width * shape.value_dim;
  const int64_t slot_floats = state_floats + kGrid * (2 * q_width + v_width);
  // Like a model's layers: decode visits other states before it returns to one.
  const int64_t slots = rows > 1 ? 1 : kCacheBytes / (slot_floats * 4);
  std::vector<float> memory = Numbers(slots * slot_floats);
  std::vector<float> q = Numbers(rows * q_width), k = Numbers(rows * q_width);
  std::vector<float> v = Numbers(rows * v_width), gate = Numbers(rows * q_width);
  std::vector<float> out(v.size());
  const std::vector<float> log_decay(static_cast<size_t>(shape.num_heads), -0.1f);
  BenchStream bench(state.range(1),
                    LinearRecurrenceWorkspace(rows, shape.num_heads, kGrid, shape.key_dim));
  Step step(kGrid * 100 + (rows == 1 ? kGrid / 2 : rows), rows);
  LinearRecurrenceArgs args;
  args.q = {q.data(), DType::kF32, rows, q_width, q_width};
  args.k = {k.data(), DType::kF32, rows, q_width, q_width};
  args.v = {v.data(), DType::kF32, rows, v_width, v_width};
  if (shape.gated) {
    args.gate = {gate.data(), DType::kF32, rows, q_width, q_width};
  } else {
    args.log_decay = log_decay.data();
  }
  auto* base = reinterpret_cast<std::byte*>(memory.data());
  args.cache.state = base;
  args.cache.keys = base + state_floats * 4;
  args.cache.values = args.cache.keys + kGrid * q_width * 4;
  args.cache.gates = args.cache.values + kGrid * v_width * 4;
  args.cache.slot_stride = slot_floats * 4;
  args.cache.grid = kGrid;
  args.cache.num_heads = args.cache.num_kv_heads = shape.num_heads;
  args.cache.key_dim = shape.key_dim;
  args.cache.value_dim = shape.value_dim;
  args.out = {out.data(), DType::kF32, rows, v_width, v_width};
  MeasureOp(state, state.range(1), RecurrenceWork(shape, rows), [&] {
    args.batch = step.layout();
    DeviceOps().linear_recurrence(bench.stream, args);
    step.sequence.slot = static_cast<int32_t>((step.sequence.slot + 1) % slots);
  });
}
void RecurrenceSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "threads"})->ArgsProduct({{1, 512}, BenchThreads()})->UseRealTime();
}
BENCHMARK_CAPTURE(Recurrence, lightning_16x128x128, RecurrentShape{16, 128, 128, false})
    ->Apply(RecurrenceSizes);
BENCHMARK_CAPTURE(Recurrence, gated_1x512x1024, RecurrentShape{1, 512, 1024, true})
    ->Apply(RecurrenceSizes);

}  // namespace
}  // namespace longstream
