// Attention with clipped distances on every instruction set.
#include "kernels/ops/attention/rerope_attention.h"

#include "tests/kernels/attention_fixture.h"

namespace longstream {
namespace {

class ReropeAttentionTest : public AttentionTest {
 protected:
  ReropeAttentionTest() {
    if (ops().int8_pages) types_.push_back(DType::kI8);
  }

  OwnedMatrix Run(const OpTable& table, const Executor& executor,
                  const std::vector<AttentionEntry>& entries) override {
    const AttentionStep step(histories_, entries, places_, row_gap_);
    const OwnedPages pages = Pages(entries);
    const OwnedRings rings = Rings(entries, window_, window_ + slack_, true);
    OwnedMatrix out(step.batch.num_rows(), shape_.num_out_heads() * shape_.head_dim);
    ReropeAttentionArgs args;
    args.batch = step.batch.layout();
    args.num_heads = shape_.num_heads;
    args.window = window_;
    args.scale = scale();
    args.softcap = softcap_;
    args.q = step.q.view();
    args.q_far = step.q_far.view();
    args.cache = pages.view();
    args.near = rings.view();
    args.near_rows = step.k_near.view();
    args.max_position = step.batch.max_position();
    args.out = out.view();
    OwnedStream stream(AttentionWorkspace(step.batch.num_decode_rows(), shape_.num_out_heads(),
                                          shape_.head_dim, args.max_position),
                       executor);
    table.rerope_attention(*stream, args);
    EXPECT_TRUE(stream->ok());
    return out;
  }

  int32_t window_ = 64;
  int32_t slack_ = 0;  // slots beyond the window
  int64_t row_gap_ = 0;
};
LONGSTREAM_INSTANTIATE_OP_TEST(ReropeAttentionTest);

TEST_P(ReropeAttentionTest, MatchesTheReference) {
  // With the last window every key is near. Which kernel runs does not depend on it: interpreted,
  // one border within a block of keys, one at its end, one beyond and none have to do.
  for (int32_t window : {1, 5, 63, 64, 65, 130, 400}) {
    if (traits().interpreted && (window == 1 || window == 63 || window == 130)) continue;
    window_ = window;
    slack_ = window % 2 == 0 ? 64 : 3;
    ExpectMatchInMixedBatch("window " + std::to_string(window));
  }
}

// Splits wholly far, wholly near, and with the border inside.
TEST_P(ReropeAttentionTest, MatchesTheReferenceInLongRows) {
  for (int32_t window : {65, 1024, 1500}) {
    window_ = window;
    for (DType type : AndInt8({DType::kBF16})) {
      MakeHistories(3, 3100, {3, 1, 24}, type);
      ExpectMatch({{0, {3099, 1, true}}, {1, {2048, 1, true}}, {2, {2900, 70, false}}},
                  "splits, window " + std::to_string(window));
    }
  }
}

// The step's own keys begin at multiples of 16 bytes, as those of the rings do.
TEST_P(ReropeAttentionTest, MatchesTheReferenceWithAlignedRows) {
  row_gap_ = 5;
  for (DType type : types_) {
    MakeHistories(3, 200, {4, 2, 24}, type);
    const OwnedMatrix rows(1, histories_[0].k.cols() + row_gap_);
    ASSERT_EQ(rows.view().stride % 8, 0);
    ExpectMatch({{0, {130, 1, true}}, {1, {150, 50, false}}, {2, {40, 90, false}}}, "aligned rows");
  }
}

TEST_P(ReropeAttentionTest, ValuesHaveSlices) {
  window_ = 65;
  slack_ = 64;
  ExpectSlicesOfValues("slices");
}

TEST_P(ReropeAttentionTest, Softcap) {
  window_ = 65;
  ExpectMatchAndSameBitsWithSoftcap();
  MakeHistories(2, 5000, {3, 1, 24}, DType::kBF16);
  window_ = 1500;
  ExpectMatch({{0, {4998, 1, true}}, {1, {2500, 3, false}}}, "softcap, parts");
}

TEST_P(ReropeAttentionTest, SumsOfTheLargestIntegers) {
  window_ = 65;
  ExpectMatchOfLargestIntegers();
}

TEST_P(ReropeAttentionTest, HasTheSameBitsAlone) {
  window_ = 65;
  ExpectSameBitsAlone();
}

TEST_P(ReropeAttentionTest, HasTheSameBitsOnAnyThreads) {
  window_ = 65;
  ExpectSameBitsOnAnyThreads();
}

TEST_P(ReropeAttentionTest, HasTheSameBitsInPieces) {
  for (int32_t window : {5, 64, 100}) {
    window_ = window;
    ExpectSameBitsInPieces();
  }
}

}  // namespace
}  // namespace longstream
