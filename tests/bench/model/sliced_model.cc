// Makes contexts of random numbers and runs slices after these contexts.
#include "tests/bench/model/sliced_model.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "backends/errors/error.h"
#include "kernels/ops/op_table.h"
#include "tests/backends/model/random_model.h"
#include "tests/bench/model/timed_ops.h"
#include "tests/bench/plans/step_bytes.h"
#include "tests/bench/timing.h"

namespace longstream {
namespace {

constexpr int64_t kPiece = 512;  // tokens of a prefill step

ModelWeights Weights(const ModelSpec& spec, DType type, const Executor& executor) {
  return RandomWeights(spec, type, DeviceOps(), executor);
}

// Fills memory with random 16-bit numbers. Read as bf16, or in pairs as f32, the numbers have
// magnitudes from 1/4 to 1 and either sign. Read as f16, they have magnitudes from 1.6 to 2.
void FillRandom(std::byte* data, size_t bytes) {
  static const std::vector<uint16_t> tile = [] {
    std::vector<uint16_t> numbers(size_t{1} << 15);
    uint32_t state = 1;
    for (uint16_t& number : numbers) {
      state = state * 1664525 + 1013904223;  // Numerical Recipes
      number = static_cast<uint16_t>(0x3e80 + (state >> 16 & 0xff) + (state >> 16 & 0x8000));
    }
    return numbers;
  }();
  const size_t tile_bytes = tile.size() * sizeof(uint16_t);
  for (size_t begin = 0; begin < bytes; begin += tile_bytes) {
    std::memcpy(data + begin, tile.data(), std::min(tile_bytes, bytes - begin));
  }
}

// Fills a page with random numbers. In int8 pages, the scales of each head follow its numbers and
// are 1/64.
void FillPage(std::byte* page, int64_t num_heads, int64_t head_dim, DType type) {
  const int64_t head_bytes = PagedHeadBytes(type, kPageTokens, head_dim);
  FillRandom(page, static_cast<size_t>(num_heads * head_bytes));
  if (type != DType::kI8) return;
  for (int64_t head = 1; head <= num_heads; ++head) {
    auto* end = reinterpret_cast<BF16*>(page + head * head_bytes);
    std::fill(end - kPageTokens, end, ToBF16(0x1p-6f));
  }
}

void FillPages(SequenceCache& cache) {
  const CacheStore& store = cache.store();
  for (size_t i = 0; i < store.layout.layers.size(); ++i) {
    const LayerCacheLayout& layer = store.layout.layers[i];
    if (!layer.paged.has_value()) continue;
    for (const int32_t page : cache.page_table()) {
      const PagedLayout& paged = *layer.paged;
      const DType type = store.layout.page_type;
      FillPage(store.pages.keys(i, page), paged.num_kv_heads, paged.head_dim, type);
      FillPage(store.pages.values(i, page), paged.num_value_heads(), paged.head_dim, type);
    }
  }
}

constexpr ls_sampling Greedy() {
  ls_sampling greedy{};
  greedy.struct_size = sizeof(greedy);
  greedy.top_p = greedy.repetition_penalty = 1.0f;
  return greedy;
}
constexpr ls_sampling kGreedy = Greedy();

}  // namespace

SlicedModel::SlicedModel(ModelSpec spec, const SlicedModelOptions& options,
                         const Executor& executor)
    : options_(options),
      model_(spec, Weights(spec, options.weights, executor), options.cache, TimedOps(), executor,
             {.cache_bytes_budget = 0,
              .max_batch_tokens = std::max(static_cast<uint32_t>(kPiece), options.batch),
              .max_batch_sequences = options.batch}),
      bandwidth_(executor, options.probe_bytes),
      weight_bytes_(StepWeightBytes(model_.spec(), model_.weights(), DeviceOps(), options.batch)),
      tokens_(options.batch, 7) {}

std::unique_ptr<ls_sequence> SlicedModel::MakeContext(int64_t depth) {
  std::unique_ptr<ls_sequence> sequence = model_.Create();
  SequenceCache& cache = *sequence->cache;
  model_.Reserve(*sequence, static_cast<uint64_t>(depth + kMaxSliceTokens));
  const CacheStore& store = cache.store();
  if (depth > 0) {
    cache.Append(depth);
    FillRandom(store.slots.data(cache.slot()), static_cast<size_t>(store.layout.slot_stride));
  }
  model_.MarkRollbackPoint(*sequence);
  // Also touches the pages that slices will write.
  cache.Append(kMaxSliceTokens);
  FillPages(cache);
  return sequence;
}

SlicedModel::Sequences& SlicedModel::At(int64_t depth) {
  Sequences& sequences = contexts_[depth];
  while (sequences.size() < options_.batch) sequences.push_back(MakeContext(depth));
  for (const auto& sequence : sequences) {
    model_.Truncate(*sequence, static_cast<uint64_t>(depth));
  }
  return sequences;
}

void SlicedModel::Step(const std::vector<ls_batch_entry>& entries) {
  const ls_batch batch = {sizeof(ls_batch), entries.data(), static_cast<uint32_t>(entries.size())};
  const ls_results results = model_.Wait(model_.Submit(batch));
  for (uint32_t i = 0; i < results.num_results; ++i) {
    const ls_result& result = results.results[i];
    if (result.code != LS_OK) {
      throw BackendError(result.code, std::string("a step failed: ") + result.message);
    }
    if (result.sampled >= 0) tokens_[i] = result.sampled;
  }
}

void SlicedModel::Decode(Sequences& sequences, const SliceKind& kind, Slice* slice) {
  std::vector<ls_batch_entry> entries(sequences.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].sequence = sequences[i].get();
    entries[i].tokens = &tokens_[i];
    entries[i].num_tokens = 1;
    entries[i].is_decode = 1;
    entries[i].sampling = &kGreedy;
  }
  const SequenceCache& cache = *sequences.front()->cache;
  const int64_t depth = cache.position();
  const double begin = Seconds();
  int64_t steps = 0;
  while (steps < kind.tokens && (steps == 0 || Seconds() - begin < options_.slice_seconds)) {
    Step(entries);
    ++steps;
  }
  slice->seconds = Seconds() - begin;
  const auto batch = static_cast<double>(entries.size());
  slice->tokens = steps * static_cast<int64_t>(entries.size());
  slice->bytes =
      static_cast<double>(steps) *
      (weight_bytes_ + batch * DecodeCacheBytes(cache.store().layout, depth + steps / 2));
}

void SlicedModel::Prefill(ls_sequence& sequence, const SliceKind& kind, Slice* slice) {
  const std::vector<int32_t> tokens(static_cast<size_t>(kPiece), 7);
  const double begin = Seconds();
  for (int64_t fed = 0; fed < kind.tokens;) {
    const int64_t piece = std::min(kPiece, kind.tokens - fed);
    fed += piece;
    ls_batch_entry entry{};
    entry.sequence = &sequence;
    entry.tokens = tokens.data();
    entry.num_tokens = static_cast<uint32_t>(piece);
    entry.sampling = fed == kind.tokens ? &kGreedy : nullptr;
    Step({entry});
  }
  slice->seconds = Seconds() - begin;
  slice->tokens = kind.tokens;
}

Slice SlicedModel::Run(const SliceKind& kind) {
  Sequences& sequences = At(kind.depth);
  Slice slice;
  slice.probes[0] = bandwidth_.Measure();
  TakeOpSeconds();
  if (kind.op == SliceKind::Op::kDecode) {
    Decode(sequences, kind, &slice);
  } else {
    Prefill(*sequences.front(), kind, &slice);
  }
  slice.op_seconds = TakeOpSeconds();
  slice.probes[1] = bandwidth_.Measure();
  return slice;
}

}  // namespace longstream
