// Places of caches: arrays do not overlap, and sizes do not overflow.
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
  LayerCacheLayout layer;
  layer.ring = RingLayout::For(1 << 30, 1 << 12, 1 << 8, 1);
  EXPECT_THROW(PlaceCaches({layer}, DType::kBF16), BackendError);
  layer.ring->num_kv_heads = 8;
  EXPECT_EQ(PlaceCaches({layer}, DType::kBF16).ring_bytes,
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
