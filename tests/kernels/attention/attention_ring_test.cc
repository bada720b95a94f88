// Tests of attention over rings, with windows of all lengths.
#include "kernels/ops/attention/attention.h"
#include "tests/kernels/attention_fixture.h"

namespace longstream {
namespace {

class RingAttentionTest : public AttentionTest {
 protected:
  OwnedMatrix Run(const OpTable& table, const Executor& executor,
                  const std::vector<AttentionEntry>& entries) override {
    const AttentionStep step(histories_, entries, places_, row_gap_);
    const OwnedRings rings = Rings(entries, window_, window_ + slack_, false);
    return RunOver(RingKeys{rings.view(), step.k.view(), step.v.view()}, step, table, executor);
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(RingAttentionTest);

TEST_P(RingAttentionTest, MatchesTheReference) {
  // Window 400 holds every context. A library chooses its kernel without regard to the window. So
  // an interpreted library tests only four windows: one shorter than a block of 64 keys, one as
  // long as a block, one longer than a block, and one that holds every key.
  for (int32_t window : {1, 5, 63, 64, 65, 400}) {
    if (traits().interpreted && (window == 1 || window == 63)) continue;
    window_ = window;
    slack_ = window % 2 == 0 ? 64 : 3;
    ExpectMatchInMixedBatch("window " + std::to_string(window));
  }
}

TEST_P(RingAttentionTest, MatchesTheReferenceWithoutSlack) {
  for (int32_t window : {1, 5, 64, 65}) {
    window_ = window;
    slack_ = 0;
    ExpectMatchInMixedBatch("window and ring " + std::to_string(window));
  }
}

// The cost of a row depends on its window, not on its position. A row reads no keys before its
// window; the caches of this test hold none.
TEST_P(RingAttentionTest, MatchesTheReferenceFarFromTheStart) {
  window_ = 70;
  MakeHistories(2, 4000, {4, 2, 24}, DType::kBF16);
  ExpectMatch({{0, {3998, 1, true}}, {1, {3500, 200, false}}}, "far");
}

// A library may cut a window into parts. Windows of 128 and 129 tokens are about as long as one
// part. A window of 2048 has many parts. With a window of 4500 the parts become longer. Some rows
// have a full window, others see fewer keys.
TEST_P(RingAttentionTest, MatchesTheReferenceInLongWindows) {
  for (int32_t window : {128, 129, 2048, 4500}) {
    window_ = window;
    slack_ = window == 129 ? 0 : 64;
    MakeHistories(4, 5000, {3, 1, 24}, window == 2048 ? DType::kF16 : DType::kBF16);
    ExpectMatch(
        {{0, {4998, 1, true}}, {1, {127, 1, true}}, {2, {2048, 1, true}}, {3, {2500, 3, false}}},
        "window " + std::to_string(window));
  }
}

// The rows of the step's own keys begin at multiples of 16 bytes, as the rows of a ring do.
TEST_P(RingAttentionTest, MatchesTheReferenceWithAlignedRows) {
  row_gap_ = 5;
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    MakeHistories(3, 200, {4, 2, 24}, type);
    const OwnedMatrix rows(1, histories_[0].k.cols() + row_gap_);
    ASSERT_EQ(rows.view().stride % 8, 0);
    ExpectMatch({{0, {130, 1, true}}, {1, {150, 50, false}}, {2, {40, 90, false}}}, "aligned rows");
  }
}

TEST_P(RingAttentionTest, ValuesHaveSlices) {
  window_ = 65;
  slack_ = 64;
  row_gap_ = 5;
  ExpectSlicesOfValues("slices");
}

TEST_P(RingAttentionTest, Softcap) {
  window_ = 65;
  ExpectMatchAndSameBitsWithSoftcap();
  MakeHistories(2, 5000, {3, 1, 24}, DType::kBF16);
  window_ = 2048;
  ExpectMatch({{0, {4998, 1, true}}, {1, {2500, 3, false}}}, "softcap, parts");
}

TEST_P(RingAttentionTest, HasTheSameBitsAlone) {
  for (int32_t window : {65, 200}) {
    window_ = window;
    ExpectSameBitsAlone();
  }
}

TEST_P(RingAttentionTest, HasTheSameBitsOnAnyThreads) {
  window_ = 65;
  ExpectSameBitsOnAnyThreads();
}

TEST_P(RingAttentionTest, HasTheSameBitsInPieces) {
  for (int32_t window : {5, 64, 100}) {
    window_ = window;
    ExpectSameBitsInPieces();
  }
}

TEST_P(RingAttentionTest, RefusesWhatItCannotServe) {
  MakeHistories(1, 20, {1, 1, 8}, DType::kF32);
  const std::vector<AttentionEntry> entries = {{0, {19, 1, true}}};
  const AttentionStep step(histories_, entries, places_);
  const OwnedRings rings = Rings(entries, 7, 7, false);
  OwnedMatrix out(1, 8);
  AttentionArgs args = Args(RingKeys{rings.view(), step.k.view(), step.v.view()}, step, out);
  for (const int32_t window : {0, 8}) {
    args.window = window;
    ExpectRefused(args);
  }
  args.window = 7;
  const OwnedMatrix slopes = AlibiSlopes();
  args.alibi_slopes = slopes.view().f32_row(0);
  ExpectRefused(args);
}

}  // namespace
}  // namespace longstream
