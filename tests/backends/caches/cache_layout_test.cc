// Bytes of caches as docs/models.md states them, and arrays that do not overlap.
#include "backends/caches/cache_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "backends/caches/budget.h"
#include "backends/errors/error.h"
#include "tests/backends/caches/fake_ops.h"

namespace longstream {
namespace {

MixerSpec Mixer(MixerKind kind, int32_t heads, int32_t kv_heads, int32_t dim) {
  MixerSpec mixer;
  mixer.kind = kind;
  mixer.num_heads = heads;
  mixer.num_kv_heads = kv_heads;
  mixer.head_dim = mixer.value_dim = dim;
  return mixer;
}

TEST(CacheLayoutTest, CountsBytesByKind) {
  ModelSpec spec;
  spec.layers.push_back(Mixer(MixerKind::kFull, 8, 2, 16));
  spec.layers.push_back(Mixer(MixerKind::kWindow, 8, 2, 16));
  spec.layers.back().window = 100;
  spec.layers.push_back(Mixer(MixerKind::kFull, 8, 4, 16));
  spec.layers.back().position = PositionKind::kRerope;
  spec.layers.back().rerope_window = 50;
  spec.layers.push_back(Mixer(MixerKind::kLightning, 8, 4, 16));
  spec.layers.push_back(Mixer(MixerKind::kGatedRnn, 2, 2, 16));
  spec.layers.back().value_dim = 24;
  const CacheLayout layout = MakeCacheLayout(spec, DType::kBF16);

  // 2 * H_kv * D * 2 bytes per token of a full layer.
  EXPECT_EQ(layout.layers[0].bytes_per_token, 2 * 2 * 16 * 2u);
  EXPECT_EQ(layout.layers[2].bytes_per_token, 2 * 4 * 16 * 2u);
  EXPECT_EQ(layout.bytes_per_token, 128u + 256u);
  EXPECT_EQ(layout.page_bytes, kPageTokens * (128u + 256u));

  const uint64_t ring = (100 + kPrefillGrid) * 2 * 2 * 16 * 2u;
  const uint64_t near = (50 + kPrefillGrid) * 4 * 16 * 2u;  // keys only
  EXPECT_EQ(layout.layers[1].bytes_fixed, ring);
  EXPECT_EQ(layout.layers[2].bytes_fixed, near);
  EXPECT_EQ(layout.ring_bytes, ring + near);

  const uint64_t lightning = 4 * (8 * 16 * 16 + kPrefillGrid * (4 * 16 + 4 * 16));
  const uint64_t gated = 4 * (2 * 16 * 24 + kPrefillGrid * (2 * 16 + 2 * 24 + 2 * 16));
  EXPECT_EQ(layout.layers[3].bytes_fixed, lightning);
  EXPECT_EQ(layout.layers[4].bytes_fixed, gated);
  EXPECT_EQ(layout.state_bytes, lightning + gated);

  // Near rings are rebuilt from the pages.
  EXPECT_EQ(layout.rollback_bytes, ring + lightning + gated);
  EXPECT_EQ(layout.min_ring_slots, 100 + kPrefillGrid);
  EXPECT_EQ(layout.min_near_slots, 50 + kPrefillGrid);
}

// A gated attention unit with s = 16 and e = 5 s.
TEST(CacheLayoutTest, CountsBytesOfWideValues) {
  ModelSpec spec;
  for (const MixerKind kind : {MixerKind::kFull, MixerKind::kWindow, MixerKind::kFull}) {
    spec.layers.push_back(Mixer(kind, 1, 1, 16));
    spec.layers.back().value_dim = 5 * 16;
  }
  spec.layers[1].window = 100;
  spec.layers[2].position = PositionKind::kRerope;
  spec.layers[2].rerope_window = 50;
  const CacheLayout layout = MakeCacheLayout(spec, DType::kBF16);
  EXPECT_EQ(layout.layers[0].bytes_per_token, (16 + 80) * 2u);
  EXPECT_EQ(layout.page_bytes, kPageTokens * 2 * (16 + 80) * 2u);
  EXPECT_EQ(layout.layers[1].bytes_fixed, (100 + kPrefillGrid) * (16 + 80) * 2u);
  EXPECT_EQ(layout.layers[2].bytes_fixed, (50 + kPrefillGrid) * 16 * 2u);
  // A scale for the key, and for each slice of the value.
  EXPECT_EQ(MakeCacheLayout(spec, DType::kI8).layers[0].bytes_per_token, 16 + 80 + 6 * 2u);
}

TEST(CacheLayoutTest, CountsBytesOfInt8Pages) {
  ModelSpec spec;
  spec.layers.push_back(Mixer(MixerKind::kFull, 8, 2, 16));
  spec.layers.push_back(Mixer(MixerKind::kWindow, 8, 2, 16));
  spec.layers.back().window = 100;
  spec.layers.push_back(Mixer(MixerKind::kFull, 8, 4, 24));
  spec.layers.back().position = PositionKind::kRerope;
  spec.layers.back().rerope_window = 50;
  const CacheLayout layout = MakeCacheLayout(spec, DType::kI8);
  // One byte per element and a bf16 scale per row; rings are bf16.
  EXPECT_EQ(layout.layers[0].bytes_per_token, 2 * 2 * (16 + 2u));
  EXPECT_EQ(layout.layers[2].bytes_per_token, 2 * 4 * (24 + 2u));
  EXPECT_EQ(layout.page_bytes, kPageTokens * (72u + 208u));
  EXPECT_EQ(layout.layers[1].bytes_fixed, (100 + kPrefillGrid) * 2 * 2 * 16 * 2u);
  EXPECT_EQ(layout.layers[2].bytes_fixed, (50 + kPrefillGrid) * 4 * 24 * 2u);
  EXPECT_EQ(layout.ring_type, DType::kBF16);
}

TEST(CacheLayoutTest, ArraysOfASlotDoNotOverlap) {
  const CacheLayout layout = LayoutOf("window+rerope+recurrent+wide_window+recurrent+rerope");
  std::vector<std::pair<int64_t, int64_t>> arrays;  // [begin, end)
  const auto add = [&](int64_t begin, int64_t elements) {
    arrays.emplace_back(begin, begin + elements * static_cast<int64_t>(sizeof(float)));
  };
  for (const LayerCacheLayout& layer : layout.layers) {
    if (layer.near) {
      add(layer.near->keys, layer.near->key_elements());
      EXPECT_GE(layer.near->keys, layout.rollback_end);
    }
    if (layer.ring) {
      add(layer.ring->keys, layer.ring->key_elements());
      add(layer.ring->values, layer.ring->value_elements());
    }
    if (layer.recurrent) {
      add(layer.recurrent->state, layer.recurrent->state_elements());
      add(layer.recurrent->keys, kPrefillGrid * layer.recurrent->key_row());
      add(layer.recurrent->values, kPrefillGrid * layer.recurrent->value_row());
      add(layer.recurrent->gates, kPrefillGrid * layer.recurrent->gate_row());
    }
  }
  std::sort(arrays.begin(), arrays.end());
  ASSERT_EQ(arrays.size(), 2u + 2 * 2 + 2 * 4);
  for (size_t i = 1; i < arrays.size(); ++i) {
    EXPECT_LE(arrays[i - 1].second, arrays[i].first);
    EXPECT_EQ(arrays[i].first % 64, 0);
  }
  EXPECT_LE(arrays.back().second, layout.slot_stride);
}

// 2^12 heads of 2^8 numbers each over 2^30 tokens must be refused before anything overflows.
TEST(CacheLayoutTest, RingsThatNoMachineHoldsAreRefused) {
  ModelSpec spec;
  spec.layers = {Mixer(MixerKind::kWindow, 1 << 12, 1 << 12, 1 << 8)};
  spec.layers[0].window = 1 << 30;
  EXPECT_THROW(MakeCacheLayout(spec, DType::kBF16), BackendError);
  spec.layers[0].num_kv_heads = 8;
  EXPECT_EQ(MakeCacheLayout(spec, DType::kBF16).ring_bytes,
            2 * 8 * ((uint64_t{1} << 30) + kPrefillGrid) * 256 * 2);
}

TEST(CacheLayoutTest, SaturatedBytesNeverWrapAround) {
  EXPECT_EQ(SaturatedBytes(3, 5), 15u);
  EXPECT_EQ(SaturatedBytes(0, UINT64_MAX), 0u);
  EXPECT_EQ(SaturatedBytes(uint64_t{1} << 32, uint64_t{1} << 32), UINT64_MAX);
  EXPECT_EQ(SaturatedBytes(uint64_t{1} << 33, (uint64_t{1} << 32) + 1), UINT64_MAX);
}

TEST(CacheLayoutTest, ADenseModelHasNoSlot) {
  const CacheLayout layout = LayoutOf("full+full");
  EXPECT_EQ(layout.slot_stride, 0);
  EXPECT_EQ(layout.rollback_bytes, 0u);
  EXPECT_FALSE(layout.has_rings || layout.has_near_rings || layout.has_states);
}

TEST(CacheLayoutTest, APlanOfWindowsHasNoPages) {
  const CacheLayout layout = LayoutOf("window+recurrent");
  EXPECT_FALSE(layout.has_pages());
  EXPECT_EQ(layout.bytes_per_token, 0u);
}

}  // namespace
}  // namespace longstream
