// Tests what the layers of a model need together, and that they need the bytes of caches that
// docs/models.md states.
#include "backends/model/layers.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "backends/spec/model_spec.h"
#include "kernels/ops/gemm/linear.h"
#include "kernels/reference/reference_ops.h"
#include "tests/backends/model/random_model.h"

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

TEST(LayersTest, CountsBytesOfCachesByKind) {
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
TEST(LayersTest, CountsBytesOfWideValues) {
  ModelSpec spec;
  for (const MixerKind kind : {MixerKind::kFull, MixerKind::kWindow, MixerKind::kFull}) {
    spec.layers.push_back(Mixer(kind, 1, 1, 16));
    spec.layers.back().value_dim = 5 * 16;
    spec.layers.back().gau = true;
  }
  spec.layers[1].window = 100;
  spec.layers[2].position = PositionKind::kRerope;
  spec.layers[2].rerope_window = 50;
  const CacheLayout layout = MakeCacheLayout(spec, DType::kBF16);
  EXPECT_EQ(layout.layers[0].bytes_per_token, (16 + 80) * 2u);
  EXPECT_EQ(layout.page_bytes, kPageTokens * 2 * (16 + 80) * 2u);
  EXPECT_EQ(layout.layers[1].bytes_fixed, (100 + kPrefillGrid) * (16 + 80) * 2u);
  EXPECT_EQ(layout.layers[2].bytes_fixed, (50 + kPrefillGrid) * 16 * 2u);
  // A key has one scale, and so has each of the 5 slices of a value.
  EXPECT_EQ(MakeCacheLayout(spec, DType::kI8).layers[0].bytes_per_token, 16 + 80 + 6 * 2u);
}

TEST(LayersTest, CountsBytesOfInt8Pages) {
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

// The largest buffer of a step is that of the layer that needs most of it.
TEST(LayersTest, BuffersAreAsLargeAsTheLargestLayerNeeds) {
  constexpr StepLimits kLimits = {.max_rows = 8, .max_decode_rows = 2, .context_limit = 100};
  // H = 4, H_kv = 2, D = 6, d = 26, ff = 38.
  struct Case {
    const char* plan;
    int64_t projected, far_queries, keys, mixed;
  };
  for (const Case& c :
       {Case{"full", 24 + 12 + 12, 0, 12, 24},
        Case{"nope", 24 + 12 + 12 + 24, 0, 12, 24},  // with an output gate
        Case{"window", 48, 0, 12, 24}, Case{"rerope", 48, 24, 12, 24},
        Case{"chunked", 48, 0, 12, 24}, Case{"lightning", 48 + 24, 0, 0, 24},
        Case{"gated", 24 + 24 + 32 + 24, 0, 0, 32}, Case{"gated+rerope", 104, 24, 12, 32}}) {
    ModelSpec spec = RandomSpec(c.plan, {.chunk_size = 16});
    const ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
    const StepSizes sizes = SizesOf(spec, weights, kLimits);
    EXPECT_EQ(sizes.width, 26) << c.plan;
    EXPECT_EQ(sizes.projected, c.projected) << c.plan;
    EXPECT_EQ(sizes.far_queries, c.far_queries) << c.plan;
    EXPECT_EQ(sizes.keys, c.keys) << c.plan;
    EXPECT_EQ(sizes.values, c.keys) << c.plan;
    EXPECT_EQ(sizes.mixed, c.mixed) << c.plan;
    EXPECT_EQ(sizes.hidden, PreparedBytes(8, 38)) << c.plan;
    EXPECT_EQ(sizes.branch, 0) << c.plan;
    EXPECT_GE(sizes.workspace, LinearWorkspace(8, 26, 38)) << c.plan;
    for (MixerSpec& layer : spec.layers) layer.feed_forward = FeedForwardKind::kNone;
    EXPECT_EQ(SizesOf(spec, weights, kLimits).hidden, 0) << c.plan;
  }
}

TEST(LayersTest, ABranchWithItsOwnNormHasABuffer) {
  ModelSpec spec = RandomSpec("full+full");
  spec.names.mlp_post_norm = "post_feedforward_layernorm";
  const ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  EXPECT_EQ(
      SizesOf(spec, weights, {.max_rows = 1, .max_decode_rows = 1, .context_limit = 100}).branch,
      26);
}

TEST(LayersTest, AGatedAttentionUnitProjectsQueriesAndKeysApart) {
  ModelSpec spec = RandomSpec("full");
  MixerSpec& mixer = spec.layers[0];
  mixer.gau = true;
  mixer.num_heads = mixer.num_kv_heads = 1;
  mixer.value_dim = 18;
  const ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  EXPECT_EQ(weights.layers[0].mixer.in.n, 18 + 18 + 6);
  const StepSizes sizes =
      SizesOf(spec, weights, {.max_rows = 1, .max_decode_rows = 1, .context_limit = 100});
  EXPECT_EQ(sizes.projected, 18 + 18 + 6 + 6);
  EXPECT_EQ(sizes.values, 18);
}

}  // namespace
}  // namespace longstream
