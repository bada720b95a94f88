// Tests of attention over far pages and near rings (ReRoPE), with near windows of all lengths.
#include "kernels/ops/attention/attention.h"
#include "tests/kernels/attention_fixture.h"

namespace longstream {
namespace {

class FarNearAttentionTest : public AttentionTest {
 protected:
  FarNearAttentionTest() {
    has_near_keys_ = true;
    if (ops().int8_pages) types_.push_back(DType::kI8);
  }

  OwnedMatrix Run(const OpTable& table, const Executor& executor,
                  const std::vector<AttentionEntry>& entries) override {
    const AttentionStep step(histories_, entries, places_, row_gap_);
    const OwnedPages pages = Pages(entries);
    const OwnedRings rings = Rings(entries, window_, window_ + slack_, true);
    return RunOver(Keys(step, pages, rings), step, table, executor);
  }

  FarNearKeys Keys(const AttentionStep& step, const OwnedPages& pages,
                   const OwnedRings& rings) const {
    return {window_, step.q_far.view(), pages.view(), rings.view(), step.k_near.view()};
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(FarNearAttentionTest);

TEST_P(FarNearAttentionTest, MatchesTheReference) {
  // With window 400 every key is near. A library chooses its kernel without regard to the window.
  // So an interpreted library tests only four windows: one shorter than a block of 64 keys, one as
  // long as a block, one longer than a block, and one that holds every key.
  for (int32_t window : {1, 5, 63, 64, 65, 130, 400}) {
    if (traits().interpreted && (window == 1 || window == 63 || window == 130)) continue;
    window_ = window;
    slack_ = window % 2 == 0 ? 64 : 3;
    ExpectMatchInMixedBatch("window " + std::to_string(window));
  }
}

// Each row is computed in parts (splits). Some parts have only far keys, some have only near keys,
// and one part has the border between far and near keys inside.
TEST_P(FarNearAttentionTest, MatchesTheReferenceInLongRows) {
  for (int32_t window : {65, 1024, 1500}) {
    window_ = window;
    for (DType type : AndInt8({DType::kBF16})) {
      MakeHistories(3, 3100, {3, 1, 24}, type);
      ExpectMatch({{0, {3099, 1, true}}, {1, {2048, 1, true}}, {2, {2900, 70, false}}},
                  "splits, window " + std::to_string(window));
    }
  }
}

// The rows of the step's own keys begin at multiples of 16 bytes, as the rows of a ring do.
TEST_P(FarNearAttentionTest, MatchesTheReferenceWithAlignedRows) {
  row_gap_ = 5;
  for (DType type : types_) {
    MakeHistories(3, 200, {4, 2, 24}, type);
    const OwnedMatrix rows(1, histories_[0].k.cols() + row_gap_);
    ASSERT_EQ(rows.view().stride % 8, 0);
    ExpectMatch({{0, {130, 1, true}}, {1, {150, 50, false}}, {2, {40, 90, false}}}, "aligned rows");
  }
}

TEST_P(FarNearAttentionTest, ValuesHaveSlices) {
  window_ = 65;
  slack_ = 64;
  ExpectSlicesOfValues("slices");
}

TEST_P(FarNearAttentionTest, Softcap) {
  window_ = 65;
  ExpectMatchAndSameBitsWithSoftcap();
  MakeHistories(2, 5000, {3, 1, 24}, DType::kBF16);
  window_ = 1500;
  ExpectMatch({{0, {4998, 1, true}}, {1, {2500, 3, false}}}, "softcap, parts");
}

TEST_P(FarNearAttentionTest, SumsOfTheLargestIntegers) {
  window_ = 65;
  ExpectMatchOfLargestIntegers();
}

TEST_P(FarNearAttentionTest, HasTheSameBitsAlone) {
  window_ = 65;
  ExpectSameBitsAlone();
}

TEST_P(FarNearAttentionTest, HasTheSameBitsOnAnyThreads) {
  window_ = 65;
  ExpectSameBitsOnAnyThreads();
}

TEST_P(FarNearAttentionTest, HasTheSameBitsInPieces) {
  for (int32_t window : {5, 64, 100}) {
    window_ = window;
    ExpectSameBitsInPieces();
  }
}

TEST_P(FarNearAttentionTest, RefusesWhatItCannotServe) {
  MakeHistories(1, 20, {1, 1, 8}, DType::kF32);
  const std::vector<AttentionEntry> entries = {{0, {19, 1, true}}};
  const AttentionStep step(histories_, entries, places_);
  const OwnedPages pages = Pages(entries);
  const OwnedRings rings = Rings(entries, window_, window_, true);
  OwnedMatrix out(1, 8);
  AttentionArgs args = Args(Keys(step, pages, rings), step, out);
  args.window = 5;
  ExpectRefused(args);
  args.window = 0;
  const OwnedMatrix slopes = AlibiSlopes();
  args.alibi_slopes = slopes.view().f32_row(0);
  ExpectRefused(args);
}

}  // namespace
}  // namespace longstream
