// Slices begin at the depth that they name, in models with every kind of layer.
#include "tests/bench/model/sliced_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/core/thread_pool.h"
#include "tests/backends/model/random_model.h"

namespace longstream {
namespace {

ModelSpec Spec() {
  RandomShape shape;
  shape.chunk_size = 16;
  return RandomSpec("full+nope+rerope+window+chunked+lightning+gated", shape);
}

class SlicedModelTest : public ::testing::TestWithParam<DType> {
 protected:
  SlicedModel Make(uint32_t batch, double slice_seconds = 1e9) {
    return SlicedModel(Spec(),
                       {.weights = GetParam(),
                        .batch = batch,
                        .slice_seconds = slice_seconds,
                        .probe_bytes = 1 << 20},
                       pool_.AsExecutor());
  }

  // The bytes that a step reads grow with the context, so they tell the position of the step.
  static double BytesOfAStep(SlicedModel& model, int64_t depth) {
    return model.Run({SliceKind::Op::kDecode, depth, 1}).bytes;
  }

  ThreadPool pool_{2};
};

TEST_P(SlicedModelTest, ADecodeFeedsEverySequence) {
  SlicedModel model = Make(3);
  for (const int64_t depth : {0, 100}) {
    const Slice slice = model.Run({SliceKind::Op::kDecode, depth, 5});
    EXPECT_EQ(slice.tokens, 15);
    EXPECT_GT(slice.seconds, 0);
    EXPECT_GT(slice.probes[0], 0);
    EXPECT_GT(slice.probes[1], 0);
    // The slice lists every op that such a model needs to decode, and all ops together take no
    // longer than the slice.
    double seconds = 0;
    std::set<std::string> ops;
    for (const auto& [op, time] : slice.op_seconds) {
      ops.insert(op);
      seconds += time;
    }
    EXPECT_LE(seconds, slice.seconds);
    EXPECT_THAT(ops, ::testing::IsSupersetOf({"embed", "linear", "linear_activated", "sample",
                                              "linear_added", "attention", "linear_recurrence",
                                              "rope_cache_write"}));
  }
}

TEST_P(SlicedModelTest, ADecodeStopsWhenTimeIsUpButFeedsOneToken) {
  SlicedModel model = Make(1, /*slice_seconds=*/0);
  EXPECT_EQ(model.Run({SliceKind::Op::kDecode, 64, 1000}).tokens, 1);
}

TEST_P(SlicedModelTest, APrefillFeedsPieces) {
  SlicedModel model = Make(2);
  EXPECT_EQ(model.Run({SliceKind::Op::kPrefill, 70, 600}).tokens, 600);
  EXPECT_EQ(model.Run({SliceKind::Op::kPrefill, 0, 3}).tokens, 3);
}

// Slices at one depth do not lengthen the context: each slice starts at the depth, and no slice
// needs further pages.
TEST_P(SlicedModelTest, SlicesStartAtTheirDepth) {
  SlicedModel model = Make(1);
  const double bytes = BytesOfAStep(model, 200);
  EXPECT_GT(bytes, BytesOfAStep(model, 100));
  const uint64_t pages = model.model().memory().pages;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(model.Run({SliceKind::Op::kPrefill, 200, kMaxSliceTokens}).tokens, kMaxSliceTokens);
    EXPECT_EQ(BytesOfAStep(model, 200), bytes);
  }
  EXPECT_EQ(model.model().memory().pages, pages);
}

INSTANTIATE_TEST_SUITE_P(Weights, SlicedModelTest,
                         ::testing::Values(DType::kBF16, DType::kI8, DType::kI4));

// A step over int8 pages reads one byte for each element, and the scale of each row.
TEST(SlicedModelCacheTest, Int8PagesAreFilledAndCounted) {
  ThreadPool pool(2);
  SlicedModel model(
      RandomSpec("full+full"),
      {.weights = DType::kBF16, .cache = DType::kI8, .batch = 1, .probe_bytes = 1 << 20},
      pool.AsExecutor());
  const double near = model.Run({SliceKind::Op::kDecode, 100, 1}).bytes;
  const double far = model.Run({SliceKind::Op::kDecode, 200, 1}).bytes;
  EXPECT_EQ(far - near, 100.0 * static_cast<double>(model.model().info().kv_bytes_per_token));
  EXPECT_EQ(model.model().info().kv_bytes_per_token, 2 * 2 * 2 * (6 + 2u));
}

}  // namespace
}  // namespace longstream
