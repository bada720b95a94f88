// Tests of attention over pages: all shapes of heads and lengths of rows, softcap and ALiBi.
#include "kernels/ops/attention/attention.h"

#include <cmath>
#include <limits>

#include "tests/kernels/attention_fixture.h"

namespace longstream {
namespace {

class PagedAttentionTest : public AttentionTest {
 protected:
  PagedAttentionTest() {
    if (ops().int8_pages) types_.push_back(DType::kI8);
  }

  OwnedMatrix Run(const OpTable& table, const Executor& executor,
                  const std::vector<AttentionEntry>& entries) override {
    const AttentionStep step(histories_, entries, places_);
    const OwnedPages pages = Pages(entries);
    return RunOver(PagedKeys{pages.view()}, step, table, executor);
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(PagedAttentionTest);

TEST_P(PagedAttentionTest, MatchesTheReference) {
  for (int i = 0; i < 3; ++i) ExpectMatchInMixedBatch("");
}

TEST_P(PagedAttentionTest, MatchesTheReferenceInLongRows) {
  for (DType type : AndInt8({DType::kF32, DType::kBF16})) {
    MakeHistories(5, 5100, {3, 1, 24}, type);
    ExpectMatch({{0, {1023, 1, true}},
                 {1, {5000, 1, true}},
                 {2, {1024, 1, true}},
                 {3, {2047, 3, false}},
                 {4, {4095, 1, true}}},
                "splits");
  }
}

// Long rows are computed in several parts, and a task computes several K/V heads of a part
// together. A K/V head with 20 query heads has one group of 16 query heads and one group of 4.
TEST_P(PagedAttentionTest, MatchesTheReferenceInLongRowsOfManyKeyHeads) {
  for (const AttentionShape& shape : {AttentionShape{8, 8, 24}, AttentionShape{80, 4, 8}}) {
    for (DType type : AndInt8({DType::kBF16})) {
      MakeHistories(2, 3100, shape, type, 64);
      ExpectMatch({{0, {3000, 1, true}}, {1, {2047, 1, true}}}, "splits, many key heads");
    }
  }
}

// The rows of a head lie in memory without gaps, because they fill whole registers. A page of 64
// tokens is a block of keys. In longer pages, a block may begin at another slot than the first, and
// it may end in another page.
TEST_P(PagedAttentionTest, MatchesTheReferenceWithoutGaps) {
  const auto match = [&](const AttentionShape& shape, int32_t page_tokens) {
    for (DType type : AndInt8({DType::kBF16})) {
      MakeHistories(3, 300, shape, type, page_tokens);
      ExpectMatch({{0, {299, 1, true}}, {1, {200, 70, false}}, {2, {191, 1, true}}}, "no gaps");
    }
  };
  for (const AttentionShape& shape :
       {AttentionShape{2, 1, 64}, {3, 1, 96}, {4, 1, 128}, {3, 1, 128}, {2, 1, kMaxHeadDim}}) {
    match(shape, 64);
  }
  for (int32_t page_tokens : {96, 128}) match({2, 1, 64}, page_tokens);
}

// The step has so many short rows that one task computes all K/V heads of a row. The last block of
// keys of a row may end anywhere.
TEST_P(PagedAttentionTest, MatchesTheReferenceInManyShortRows) {
  for (const AttentionShape& shape :
       {AttentionShape{8, 8, 64}, {6, 3, 128}, {16, 8, 40}, {16, 16, 64}, {26, 26, 24}}) {
    for (DType type : AndInt8({DType::kBF16})) {
      MakeHistories(9, 200, shape, type, 64);
      std::vector<AttentionEntry> entries;
      for (const int64_t position : {0, 1, 62, 63, 64, 65, 143, 191, 199}) {
        entries.push_back({static_cast<int>(entries.size()), {position, 1, true}});
      }
      ExpectMatch(entries, "short rows");
    }
  }
}

// From position 16384 on, the parts of a row (splits) are longer than kAttentionSplit; from 32768
// on, they are longer still.
TEST_P(PagedAttentionTest, MatchesTheReferenceInVeryLongRows) {
  for (DType type : AndInt8({DType::kBF16})) {
    MakeHistories(4, 70001, {1, 1, 8}, type, 64);
    ExpectMatch({{0, {16383, 1, true}},
                 {1, {16384, 1, true}},
                 {2, {33000, 1, true}},
                 {3, {70000, 1, true}}},
                "long splits");
  }
}

// A K/V head has more query heads than one task computes together.
TEST_P(PagedAttentionTest, MatchesTheReferenceForManyHeadsPerKey) {
  for (DType type : AndInt8({DType::kF16})) {
    MakeHistories(2, 1300, {37, 1, 8}, type);
    ExpectMatch({{0, {1200, 1, true}}, {1, {30, 50, false}}}, "many heads");
  }
}

// Heads have unusual widths and numbers, up to the widest head. Pages have many lengths.
TEST_P(PagedAttentionTest, MatchesTheReferenceForOddWidths) {
  for (DType type : types_) {
    int32_t page_tokens = type == DType::kI8 ? 2 : 1;
    for (const AttentionShape& shape :
         {AttentionShape{3, 1, 5}, {2, 2, 33}, {9, 1, 72}, {2, 1, 129}, {2, 1, kMaxHeadDim}}) {
      MakeHistories(3, 150, shape, type, page_tokens);
      ExpectMatch({{0, {130, 1, true}}, {1, {10, 9, false}}, {2, {139, 3, false}}}, "odd");
      page_tokens += 6;
    }
  }
}

TEST_P(PagedAttentionTest, MatchesTheReferenceWithAlibi) {
  alibi_ = true;
  for (int i = 0; i < 3; ++i) ExpectMatchInMixedBatch("ALiBi");
  for (DType type : AndInt8({DType::kBF16})) {
    MakeHistories(2, 5100, {3, 1, 24}, type);
    ExpectMatch({{0, {5000, 1, true}}, {1, {2047, 3, false}}}, "ALiBi, splits");
  }
  MakeHistories(2, 300, {37, 1, 8}, DType::kF16);
  ExpectMatch({{0, {290, 1, true}}, {1, {30, 50, false}}}, "ALiBi, many heads");
}

// All keys are zero, so the weight of key j is e^(-m (p - j)). Only the value at the row's own
// position is 1, so the output is the first term of a geometric series of p + 1 terms, divided by
// their sum. The sum has an error of at most eps for each term. A weight has an error of 4 eps from
// its exponential and of 6 eps m (p - j) from its exponent; the mean of m (p - j) is below 1.
TEST_P(PagedAttentionTest, AlibiAloneIsAGeometricSeries) {
  alibi_ = true;
  for (const OpTable* table : {&ops(), &reference()}) {
    for (bool is_decode : {true, false}) {
      MakeHistories(1, 200, {3, 1, 8}, DType::kF32);
      for (int64_t j = 0; j < 200; ++j) {
        for (int64_t d = 0; d < 8; ++d) {
          histories_[0].k.set(j, d, 0.0f);
          histories_[0].v.set(j, d, j == 199 ? 1.0f : 0.0f);
        }
      }
      const OwnedMatrix out = Run(*table, {}, {{0, {199, 1, is_decode}}});
      for (int32_t h = 0; h < 3; ++h) {
        const double m = AlibiSlopes().at(0, h);
        const double expected = std::expm1(-m) / std::expm1(-m * 200);
        EXPECT_NEAR(out.at(0, h * 8), expected, 210 * kEps * expected) << "head " << h;
      }
    }
  }
}

TEST_P(PagedAttentionTest, ValuesHaveSlices) {
  ExpectSlicesOfValues("slices");
  for (DType type : AndInt8({DType::kBF16})) {
    MakeHistories(2, 5100, {3, 1, 24, 4}, type);
    ExpectMatch({{0, {5000, 1, true}}, {1, {2047, 3, false}}}, "slices, splits");
  }
  // A K/V head has more query heads than one task computes together.
  MakeHistories(2, 1300, {37, 1, 8, 3}, DType::kF16);
  ExpectMatch({{0, {1200, 1, true}}, {1, {30, 50, false}}}, "slices, many heads");
  alibi_ = true;
  MakeHistories(2, 1300, {3, 1, 8, 3}, DType::kF32);
  ExpectMatch({{0, {1200, 1, true}}, {1, {30, 50, false}}}, "slices, ALiBi");
}

TEST_P(PagedAttentionTest, Softcap) {
  ExpectMatchAndSameBitsWithSoftcap();
  for (DType type : AndInt8({DType::kBF16})) {
    MakeHistories(2, 5100, {3, 1, 24}, type);
    ExpectMatch({{0, {5000, 1, true}}, {1, {2047, 3, false}}}, "softcap, splits");
  }
  alibi_ = true;
  softcap_ = 1.0f;
  ExpectMatchInMixedBatch("softcap and ALiBi");
}

TEST_P(PagedAttentionTest, SumsOfTheLargestIntegers) { ExpectMatchOfLargestIntegers(); }

TEST_P(PagedAttentionTest, HasTheSameBitsAlone) { ExpectSameBitsAlone(); }
TEST_P(PagedAttentionTest, HasTheSameBitsOnAnyThreads) { ExpectSameBitsOnAnyThreads(); }
TEST_P(PagedAttentionTest, HasTheSameBitsInPieces) { ExpectSameBitsInPieces(); }

TEST_P(PagedAttentionTest, HasTheSameBitsWithAlibi) {
  alibi_ = true;
  ExpectSameBitsAlone();
  ExpectSameBitsOnAnyThreads();
  ExpectSameBitsInPieces();
}

// The parts of a row (splits) depend on the row's own position, not on max_position.
TEST_P(PagedAttentionTest, LongRowsHaveTheSameBitsAlone) {
  MakeHistories(3, 40000, {2, 1, 8}, DType::kBF16, 64);
  const std::vector<AttentionEntry> entries = {
      {0, {1500, 1, true}}, {1, {39999, 1, true}}, {2, {3000, 1, true}}};
  const OwnedMatrix together = Run(ops(), ExecutorOf(3), entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    ExpectSameBits(Run(ops(), {}, {entries[i]}).view(),
                   together.view().Rows(static_cast<int64_t>(i), 1), "row " + std::to_string(i));
  }
}

// The scores lie far apart: weights are 0 or 1, and the maximum grows from block to block.
TEST_P(PagedAttentionTest, SurvivesExtremeScores) {
  MakeHistories(1, 200, {1, 1, 8}, DType::kF32);
  AttentionHistory& history = histories_[0];
  for (int64_t j = 0; j < 200; ++j) {
    for (int64_t d = 0; d < 8; ++d) {
      history.q.set(j, d, 1.0f);
      history.k.set(j, d, 50.0f * static_cast<float>(j % 2 == 0 ? j : -j));
    }
  }
  for (const AttentionEntry& entry :
       {AttentionEntry{0, {199, 1, true}}, AttentionEntry{0, {0, 200, false}}}) {
    const OwnedMatrix out = Run(ops(), {}, {entry});
    // The largest score is at the last even position. It exceeds the next largest score by 282.
    for (int64_t r = 0; r < out.rows(); ++r) {
      const int64_t seen = (entry.rows.first_position + r) / 2 * 2;
      for (int64_t d = 0; d < 8; ++d) EXPECT_EQ(out.at(r, d), history.v.at(seen, d)) << r;
    }
  }
}

// Some rows of int8 pages hold numbers that are not finite, some hold only zeros, and others are
// normal.
TEST_P(PagedAttentionTest, Int8RowsKeepWhatIsNotFinite) {
  if (!ops().int8_pages) return;
  for (const bool is_decode : {true, false}) {
    for (const bool in_keys : {true, false}) {
      for (const int32_t dim : {8, 64}) {
        MakeHistories(1, 200, {2, 1, dim}, DType::kI8, 64);
        AttentionHistory& history = histories_[0];
        for (int64_t d = 0; d < dim; ++d) {
          history.k.set(7, d, 0.0f);
          history.v.set(8, d, 0.0f);
        }
        const AttentionEntry entry = {0, {199, 1, is_decode}};
        ExpectMatch({entry}, "zeros");
        (in_keys ? history.k : history.v).set(150, 3, std::numeric_limits<float>::infinity());
        for (const OpTable* table : {&ops(), &reference()}) {
          const OwnedMatrix out = Run(*table, {}, {entry});
          for (int64_t c = 0; c < out.cols(); ++c) EXPECT_FALSE(std::isfinite(out.at(0, c))) << c;
        }
      }
    }
  }
}

TEST_P(PagedAttentionTest, RefusesWhatItCannotServe) {
  MakeHistories(1, 2000, {1, 1, 8}, DType::kF32);
  const AttentionStep step(histories_, {{0, {1999, 1, true}}}, places_);
  const OwnedPages pages = Pages({{0, {1999, 1, true}}});
  OwnedMatrix out(1, 8);
  AttentionArgs args = Args(PagedKeys{pages.view()}, step, out);
  OwnedStream small(AttentionWorkspace(1, 1, 8, 1999) - 1);
  ops().attention(*small, args);
  EXPECT_EQ(small->status, OpStatus::kUnsupported);

  OwnedStream stream(AttentionWorkspace(1, 1, 8, 1999));
  args.max_position = 1998;
  ops().attention(*stream, args);
  // If only the device can read the position, the op skips the row instead of failing the stream.
  EXPECT_EQ(stream->status, traits().checks_descriptors ? OpStatus::kUnsupported : OpStatus::kOk);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));
}

TEST_P(PagedAttentionTest, RefusesAWindow) {
  MakeHistories(1, 20, {1, 1, 8}, DType::kF32);
  const std::vector<AttentionEntry> entries = {{0, {19, 1, true}}};
  const AttentionStep step(histories_, entries, places_);
  const OwnedPages pages = Pages(entries);
  OwnedMatrix out(1, 8);
  AttentionArgs args = Args(PagedKeys{pages.view()}, step, out);
  args.window = 5;
  ExpectRefused(args);
}

}  // namespace
}  // namespace longstream
