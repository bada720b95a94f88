// Measures attention and linear recurrence on this processor, and compares their speed to the
// processor's limits (yardstick.h). The limit of decode is the bandwidth of the read probe. The
// limit of prefill is the peak rate of f32 multiply-adds.
//
// The heads are those of Qwen3-0.6B: 16 heads of queries and 8 of keys and values, 128 numbers
// each. Caches are bf16; pages are also measured as int8. LONGSTREAM_ISA chooses the instruction
// set.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "kernels/ops/op_table.h"
#include "tests/bench/step.h"
#include "tests/bench/yardstick.h"

namespace longstream {
namespace {

constexpr int32_t kHeads = 16;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kDim = 128;
constexpr int64_t kKvWidth = int64_t{kKvHeads} * kDim;
constexpr int32_t kPageTokens = Step::kPageTokens;
constexpr int32_t kGrid = 64;
// Decode reads this much cache memory before it returns to the same bytes, like a model with many
// layers.
constexpr int64_t kCacheBytes = int64_t{512} << 20;

// Makes pages of random numbers, N(0, 1) as int8 with the scale 1/42. The scales of a head follow
// the head's numbers.
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

// Returns the number of scores of one head in a causal prefill of `rows` rows that end at position
// `context`. A row has at most `window` scores.
double Scores(int64_t context, int64_t rows, int64_t window) {
  double scores = 0;
  for (int64_t p = context - rows; p < context; ++p) {
    scores += static_cast<double>(std::min(p + 1, window));
  }
  return scores;
}

// `bytes` is the size of the keys and values, which are read once. A score and its weighted value
// take two multiply-adds per element of a head.
Work AttentionWork(double scores, int64_t bytes) {
  return {.bytes = static_cast<double>(bytes), .flops = 4.0 * kHeads * kDim * scores};
}

// The queries of the last `rows` rows of a sequence of `context` tokens, and the memory for the
// results.
struct Queries {
  Queries(int64_t context, int64_t rows)
      : step(context, rows), q(Numbers(rows * kHeads * kDim)), out(q.size()) {}

  AttentionArgs Args(int64_t context) {
    const int64_t rows = step.sequence.num_rows;
    return {.batch = step.layout(),
            .num_heads = kHeads,
            .scale = 0.088f,
            .q = Rows(q, rows, kHeads * kDim),
            .keys = {},
            .max_position = context,
            .out = Rows(out, rows, kHeads * kDim)};
  }

  const Step step;
  std::vector<float> q, out;
};

// Arguments: context, rows (1: decode), threads.
void Paged(benchmark::State& state, DType type) {
  const int64_t context = state.range(0), rows = state.range(1);
  Queries queries(context, rows);
  const int64_t heads = queries.step.num_pages() * kKvHeads;
  const int64_t layer_bytes = heads * PagedHeadBytes(type, kPageTokens, kDim);
  const int64_t layers = std::max<int64_t>(1, kCacheBytes / (layer_bytes * 2));
  const auto make = [&] {
    return type == DType::kI8 ? Int8Pages(layers * heads)
                              : BF16Numbers(layers * heads * kPageTokens * kDim);
  };
  const Memory keys = make(), values = make();
  AttentionArgs args = queries.Args(context);
  int64_t layer = 0;
  const Work work = AttentionWork(Scores(context, rows, context),
                                  context * kKvHeads * PagedHeadBytes(type, 1, kDim) * 2);
  MeasureOp(state, state.range(2), AttentionWorkspace(1, kHeads, kDim, context), work,
            [&](Stream& stream) {
              const int64_t offset = layer * layer_bytes;
              args.keys = PagedKeys{
                  {keys.get() + offset, values.get() + offset, type, kPageTokens, kKvHeads, kDim}};
              DeviceOps().attention(stream, args);
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

// Arguments: context, rows, window, threads. The window's keys and values are in the ring and in
// the rows of the step.
void Window(benchmark::State& state) {
  const int64_t context = state.range(0), rows = state.range(1);
  const int32_t window = static_cast<int32_t>(state.range(2));
  Queries queries(context, rows);
  const int32_t slots = window + kGrid;
  const Memory keys = BF16Numbers(slots * kKvWidth), values = BF16Numbers(slots * kKvWidth);
  const Memory k = BF16Numbers(rows * kKvWidth), v = BF16Numbers(rows * kKvWidth);
  AttentionArgs args = queries.Args(context);
  args.window = window;
  args.keys = RingKeys{{keys.get(), values.get(), 0, DType::kBF16, slots, kKvHeads, kDim},
                       BF16Rows(k, rows, kKvWidth),
                       BF16Rows(v, rows, kKvWidth)};
  const Work work = AttentionWork(Scores(context, rows, window), window * kKvWidth * 4);
  MeasureOp(state, state.range(3), 0, work,
            [&](Stream& stream) { DeviceOps().attention(stream, args); });
}
BENCHMARK(Window)
    ->ArgNames({"context", "rows", "window", "threads"})
    ->ArgsProduct({{1024, 16384}, {1, 512}, {512}, BenchThreads()})
    ->UseRealTime();

// Arguments: context, rows, window, threads.
void Rerope(benchmark::State& state) {
  const int64_t context = state.range(0), rows = state.range(1);
  const int32_t window = static_cast<int32_t>(state.range(2));
  Queries queries(context, rows);
  const int64_t elements = queries.step.num_pages() * kPageTokens * kKvWidth;
  const int32_t slots = window + kGrid;
  const Memory keys = BF16Numbers(elements), values = BF16Numbers(elements);
  const Memory near = BF16Numbers(slots * kKvWidth), near_rows = BF16Numbers(rows * kKvWidth);
  AttentionArgs args = queries.Args(context);
  args.keys = FarNearKeys{window,
                          args.q,
                          {keys.get(), values.get(), DType::kBF16, kPageTokens, kKvHeads, kDim},
                          {near.get(), nullptr, 0, DType::kBF16, slots, kKvHeads, kDim},
                          BF16Rows(near_rows, rows, kKvWidth)};
  const Work work = AttentionWork(Scores(context, rows, context), context * kKvWidth * 4);
  MeasureOp(state, state.range(3), AttentionWorkspace(1, kHeads, kDim, context), work,
            [&](Stream& stream) { DeviceOps().attention(stream, args); });
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

// Every row reads and updates the state, whose bytes count once per call. A row also has scores and
// weighted values for the earlier rows of its block of kGrid rows. On average these are half a
// block.
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
  // Decode visits other states before it returns to the same state, like a model in which each
  // layer has a state.
  const int64_t slots = rows > 1 ? 1 : kCacheBytes / (slot_floats * 4);
  std::vector<float> memory = Numbers(slots * slot_floats);
  std::vector<float> q = Numbers(rows * q_width), k = Numbers(rows * q_width);
  std::vector<float> v = Numbers(rows * v_width), gate = Numbers(rows * q_width);
  std::vector<float> out(v.size());
  const std::vector<float> log_decay(static_cast<size_t>(shape.num_heads), -0.1f);
  Step step(kGrid * 100 + (rows == 1 ? kGrid / 2 : rows), rows);
  LinearRecurrenceArgs args;
  args.q = Rows(q, rows, q_width);
  args.k = Rows(k, rows, q_width);
  args.v = Rows(v, rows, v_width);
  if (shape.gated) {
    args.gate = Rows(gate, rows, q_width);
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
  args.out = Rows(out, rows, v_width);
  MeasureOp(state, state.range(1),
            LinearRecurrenceWorkspace(rows, shape.num_heads, kGrid, shape.key_dim),
            RecurrenceWork(shape, rows), [&](Stream& stream) {
              args.batch = step.layout();
              DeviceOps().linear_recurrence(stream, args);
              step.sequence.slot = static_cast<int32_t>((step.sequence.slot + 1) % slots);
            });
}
BENCHMARK_CAPTURE(Recurrence, lightning_16x128x128, RecurrentShape{16, 128, 128, false})
    ->Apply(ForRowsAndThreads);
BENCHMARK_CAPTURE(Recurrence, gated_1x512x1024, RecurrentShape{1, 512, 1024, true})
    ->Apply(ForRowsAndThreads);

}  // namespace
}  // namespace longstream
