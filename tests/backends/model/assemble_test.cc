// What the layers of a model need: bytes of caches as docs/models.md states them.
#include "backends/model/assemble.h"

#include <gtest/gtest.h>

#include <cstdint>

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

TEST(AssembleTest, CountsBytesOfCachesByKind) {
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
TEST(AssembleTest, CountsBytesOfWideValues) {
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

TEST(AssembleTest, CountsBytesOfInt8Pages) {
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

}  // namespace
}  // namespace longstream
