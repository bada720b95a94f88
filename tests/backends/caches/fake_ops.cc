// Ops that write token ids into the caches.
#include "tests/backends/caches/fake_ops.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace longstream {
namespace {

float* F32(std::byte* data) { return reinterpret_cast<float*>(data); }

// Element 0 of [head][at][dim] of a page or ring whose heads have `slots` rows.
float& Row(std::byte* data, int64_t head, int64_t slots, int64_t at, int64_t dim) {
  return F32(data)[(head * slots + at) * dim];
}

void WriteRow(std::byte* data, int64_t head, int64_t slots, int64_t at, int64_t dim, float value) {
  std::fill_n(&Row(data, head, slots, at, dim), dim, value);
}

std::byte* SlotData(const SequenceCache& cache, int64_t offset) {
  return cache.store().slots.data(cache.slot()) + offset;
}

int32_t PageOf(const SequenceCache& cache, int64_t position) {
  return cache.page_table()[static_cast<size_t>(position / kPageTokens)];
}

// The keys or the values of a ring.
struct RingArray {
  int64_t offset = 0;
  int32_t num_heads = 0;

  static RingArray Keys(const RingLayout& ring) { return {ring.keys, ring.num_kv_heads}; }
  static RingArray Values(const RingLayout& ring) { return {ring.values, ring.num_value_heads()}; }
};

void WriteRing(const SequenceCache& cache, const RingLayout& ring, const RingArray& array,
               int64_t position, float value) {
  for (int32_t head = 0; head < array.num_heads; ++head) {
    WriteRow(SlotData(cache, array.offset), head, ring.slots, position % ring.slots, ring.head_dim,
             value + static_cast<float>(head));
  }
}

void WritePaged(const SequenceCache& cache, size_t layer, int64_t position, float value) {
  const PagedLayout& paged = *cache.store().layout.layers[layer].paged;
  const PageStore& pages = cache.store().pages;
  const int32_t page = PageOf(cache, position);
  const int64_t at = position % kPageTokens;
  for (int32_t head = 0; head < paged.num_kv_heads; ++head) {
    WriteRow(pages.keys(layer, page), head, kPageTokens, at, paged.head_dim,
             value + static_cast<float>(head));
  }
  for (int32_t head = 0; head < paged.num_value_heads(); ++head) {
    WriteRow(pages.values(layer, page), head, kPageTokens, at, paged.head_dim,
             -value - static_cast<float>(head));
  }
}

// The state is the sum of the tokens before the last grid line.
void WriteRecurrent(const SequenceCache& cache, const RecurrentLayout& memory, int64_t position,
                    float value) {
  const int64_t row = position % kPrefillGrid;
  float* keys = F32(SlotData(cache, memory.keys));
  std::fill_n(keys + row * memory.key_row(), memory.key_row(), value);
  std::fill_n(F32(SlotData(cache, memory.values)) + row * memory.value_row(), memory.value_row(),
              -value);
  std::fill_n(F32(SlotData(cache, memory.gates)) + row * memory.gate_row(), memory.gate_row(),
              value + 1);
  if (row + 1 < kPrefillGrid) return;
  float sum = 0;
  for (int64_t r = 0; r < kPrefillGrid; ++r) sum += keys[r * memory.key_row()];
  float* state = F32(SlotData(cache, memory.state));
  for (int64_t i = 0; i < memory.state_elements(); ++i) state[i] += sum;
}

void WriteToken(const SequenceCache& cache, int64_t position, int32_t token) {
  const float value = static_cast<float>(token);
  const CacheLayout& layout = cache.store().layout;
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerCacheLayout& layer = layout.layers[i];
    if (layer.paged) WritePaged(cache, i, position, value);
    if (layer.near) WriteRing(cache, *layer.near, RingArray::Keys(*layer.near), position, value);
    if (layer.ring) {
      WriteRing(cache, *layer.ring, RingArray::Keys(*layer.ring), position, value);
      WriteRing(cache, *layer.ring, RingArray::Values(*layer.ring), position, -value);
    }
    if (layer.recurrent) WriteRecurrent(cache, *layer.recurrent, position, value);
  }
}

// Collects the first difference.
class Comparison {
 public:
  explicit Comparison(size_t layer) : layer_(layer) {}

  void Expect(float expected, float found, const char* what, int64_t position) {
    if (expected == found || !text_.empty()) return;
    std::ostringstream text;
    text << "layer " << layer_ << ": " << what << " of position " << position << ": expected "
         << expected << ", found " << found;
    text_ = text.str();
  }
  const std::string& text() const { return text_; }

 private:
  const size_t layer_;
  std::string text_;
};

void CompareRing(const SequenceCache& cache, const RingLayout& ring, const RingArray& array,
                 float sign, std::span<const int32_t> history, Comparison& comparison) {
  const int64_t first = std::max<int64_t>(cache.position() - ring.window + 1, 0);
  for (int64_t p = first; p < cache.position(); ++p) {
    for (int32_t head = 0; head < array.num_heads; ++head) {
      const float expected =
          sign * static_cast<float>(history[static_cast<size_t>(p)]) + static_cast<float>(head);
      const float found =
          Row(SlotData(cache, array.offset), head, ring.slots, p % ring.slots, ring.head_dim);
      comparison.Expect(expected, found, "ring", p);
    }
  }
}

void ComparePages(const SequenceCache& cache, size_t layer, std::span<const int32_t> history,
                  Comparison& comparison) {
  const PagedLayout& paged = *cache.store().layout.layers[layer].paged;
  const PageStore& pages = cache.store().pages;
  for (int64_t p = 0; p < cache.position(); ++p) {
    const int32_t page = PageOf(cache, p);
    const int64_t at = p % kPageTokens;
    const auto expect = [&](std::byte* data, int32_t head, float sign, const char* what) {
      const float expected =
          sign * (static_cast<float>(history[static_cast<size_t>(p)]) + static_cast<float>(head));
      comparison.Expect(expected, Row(data, head, kPageTokens, at, paged.head_dim), what, p);
    };
    for (int32_t head = 0; head < paged.num_kv_heads; ++head) {
      expect(pages.keys(layer, page), head, 1.0f, "key");
    }
    for (int32_t head = 0; head < paged.num_value_heads(); ++head) {
      expect(pages.values(layer, page), head, -1.0f, "value");
    }
  }
}

void CompareRecurrent(const SequenceCache& cache, const RecurrentLayout& memory,
                      std::span<const int32_t> history, Comparison& comparison) {
  const int64_t line = cache.position() / kPrefillGrid * kPrefillGrid;
  float sum = 0;
  for (int64_t p = 0; p < line; ++p) sum += static_cast<float>(history[static_cast<size_t>(p)]);
  for (int64_t i = 0; i < memory.state_elements(); ++i) {
    comparison.Expect(sum, F32(SlotData(cache, memory.state))[i], "state", line);
  }
  for (int64_t p = line; p < cache.position(); ++p) {
    const float expected = static_cast<float>(history[static_cast<size_t>(p)]);
    const int64_t row = p - line;
    comparison.Expect(expected, F32(SlotData(cache, memory.keys))[row * memory.key_row()],
                      "pending key", p);
    comparison.Expect(-expected, F32(SlotData(cache, memory.values))[row * memory.value_row()],
                      "pending value", p);
    if (!memory.gated) continue;
    comparison.Expect(expected + 1, F32(SlotData(cache, memory.gates))[row * memory.gate_row()],
                      "pending gate", p);
  }
}

}  // namespace

CacheLayout LayoutOf(const std::string& plan) {
  constexpr int32_t kHeads = 4, kKvHeads = 2, kDim = 3;
  std::vector<LayerCacheLayout> layers;
  int32_t window = 5;
  std::istringstream names(plan);
  for (std::string name; std::getline(names, name, '+');) {
    LayerCacheLayout& layer = layers.emplace_back();
    const int32_t value_slices = name.starts_with("wide") ? 3 : 1;
    if (name == "window" || name == "wide_window") {
      layer.ring = RingLayout::For(window, kKvHeads, kDim, value_slices);
      window = 20;
    } else if (name == "recurrent") {
      layer.recurrent = RecurrentLayout{.num_heads = kHeads,
                                        .num_kv_heads = kHeads,
                                        .key_dim = kDim,
                                        .value_dim = 5,
                                        .gated = true};
    } else {
      layer.paged = PagedLayout{kKvHeads, kDim, value_slices};
      if (name == "rerope") layer.near = RingLayout::For(9, kKvHeads, kDim, 0);
    }
  }
  return PlaceCaches(std::move(layers), DType::kF32);
}

void FakeStep(SequenceCache& cache, std::span<const int32_t> tokens) {
  const int64_t first = cache.position();
  cache.Append(static_cast<int64_t>(tokens.size()));
  for (size_t i = 0; i < tokens.size(); ++i) {
    WriteToken(cache, first + static_cast<int64_t>(i), tokens[i]);
  }
}

void FakeFailedStep(SequenceCache& cache, std::span<const int32_t> tokens) {
  FakeStep(cache, tokens);
  cache.Abandon(cache.position() - static_cast<int64_t>(tokens.size()));
}

void FakeRebuild(SequenceCache& cache) {
  if (!cache.near_rings_stale()) return;
  const CacheStore& store = cache.store();
  for (size_t i = 0; i < store.layout.layers.size(); ++i) {
    const LayerCacheLayout& layer = store.layout.layers[i];
    if (!layer.near) continue;
    for (int64_t p = std::max<int64_t>(cache.position() - layer.near->slots, 0);
         p < cache.position(); ++p) {
      WriteRing(cache, *layer.near, RingArray::Keys(*layer.near), p,
                Row(store.pages.keys(i, PageOf(cache, p)), 0, kPageTokens, p % kPageTokens,
                    layer.paged->head_dim));
    }
  }
  cache.NearRingsRebuilt();
}

std::string Difference(const SequenceCache& cache, std::span<const int32_t> history) {
  if (cache.position() != static_cast<int64_t>(history.size())) {
    return "position " + std::to_string(cache.position()) + ", expected " +
           std::to_string(history.size());
  }
  const CacheLayout& layout = cache.store().layout;
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerCacheLayout& layer = layout.layers[i];
    Comparison comparison(i);
    if (layer.paged) ComparePages(cache, i, history, comparison);
    if (layer.near) {
      CompareRing(cache, *layer.near, RingArray::Keys(*layer.near), 1, history, comparison);
    }
    if (layer.ring) {
      CompareRing(cache, *layer.ring, RingArray::Keys(*layer.ring), 1, history, comparison);
      CompareRing(cache, *layer.ring, RingArray::Values(*layer.ring), -1, history, comparison);
    }
    if (layer.recurrent) CompareRecurrent(cache, *layer.recurrent, history, comparison);
    if (!comparison.text().empty()) return comparison.text();
  }
  return "";
}

std::unique_ptr<SequenceCache> Fed(CacheStore& store, std::span<const int32_t> tokens,
                                   int64_t reserve_more) {
  auto cache = std::make_unique<SequenceCache>(store);
  cache->Reserve(static_cast<int64_t>(tokens.size()) + reserve_more);
  for (size_t piece = 1; !tokens.empty(); piece = piece * 3 % 101) {
    const size_t count = std::min(piece, tokens.size());
    FakeStep(*cache, tokens.first(count));
    tokens = tokens.subspan(count);
  }
  if (reserve_more == 0) cache->Reserve(0);
  return cache;
}

std::vector<int32_t> FakeTokens(size_t count, uint32_t seed) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    seed = seed * 1664525u + 1013904223u;
    token = static_cast<int32_t>((seed >> 8) % kMaxFakeToken);
  }
  return tokens;
}

}  // namespace longstream
