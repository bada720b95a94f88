// The norm of rows on every instruction set: against the reference, and with the same bits for a
// row in any batch.
#include "kernels/ops/elementwise/norm_rows.h"

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

struct Form {
  bool accumulate = false;
  bool centred = false;
  bool biased = false;
};

class NormRowsTest : public OpTest {};
LONGSTREAM_INSTANTIATE_OP_TEST(NormRowsTest);

TEST_P(NormRowsTest, MatchesTheReference) {
  Random random(1);
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 129, 600, 1031}) {
    for (const int64_t rows : {1, 7}) {
      for (const auto& [accumulate, centred, biased] :
           {Form{}, Form{.accumulate = true}, Form{.centred = true},
            Form{.centred = true, .biased = true}, Form{true, true, true}}) {
        if (centred && n == 1) continue;  // one number has no deviation from its mean
        OwnedMatrix in(rows, n, random);
        Random same(2), again(2);
        OwnedMatrix expected(rows, n, same), actual(rows, n, again);
        const std::vector<float> weight = random.Normals(n);
        NormRowsArgs args;
        args.in = in.view();
        const std::vector<float> bias = random.Normals(n);
        args.norm = {weight.data(), n, 1e-5f, centred, biased ? bias.data() : nullptr};
        args.scale = 0.75f;
        args.accumulate = accumulate;
        OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
        args.out = expected.view();
        reference().norm_rows(*reference_stream, args);
        args.out = actual.view();
        ops().norm_rows(*stream, args);
        ASSERT_TRUE(stream->ok());
        // The mean of squares is a sum of n terms of one sign, so it has n rounding errors; the
        // root halves them. Adding the old output or the bias, or subtracting the mean, may cancel
        // values of up to 8. Then the error stays as large as these values make it.
        const double norm = static_cast<double>(n + 8) * kEps;
        const bool adds = accumulate || centred || biased;
        ExpectNear(actual.view(), expected.view(), adds ? 8 * norm : 4 * kEps, norm,
                   "norm_rows n " + std::to_string(n) + " rows " + std::to_string(rows));
        actual.CheckGaps();
      }
    }
  }
}

// If the size of the norm divides that of the row, each part of a row is a row of its own. Models
// use this for queries whose heads have weights of their own.
TEST_P(NormRowsTest, PartsOfARowByThemselves) {
  Random random(4);
  constexpr int64_t kRows = 3, kParts = 5;
  for (const int64_t size : {6, 16, 37}) {
    Random again(static_cast<uint64_t>(size));
    const int64_t n = kParts * size;
    OwnedMatrix in(kRows, n, random), expected(kRows, n), actual(kRows, n, again);
    const std::vector<float> weight = random.Normals(n), bias = random.Normals(n);
    NormRowsArgs args = {.in = in.view(),
                         .norm = {weight.data(), size, 1e-5f, true, bias.data()},
                         .out = expected.view()};
    OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
    reference().norm_rows(*reference_stream, args);
    args.out = actual.view();
    ops().norm_rows(*stream, args);
    const double norm = static_cast<double>(size + 8) * kEps;
    ExpectNear(actual.view(), expected.view(), 8 * norm, norm, "parts");
    actual.CheckGaps();
    OwnedMatrix alone(kRows, size);
    for (int64_t part = 0; part < kParts; ++part) {
      const int64_t begin = part * size;
      args.in = in.view().Columns(begin, size);
      args.out = alone.view();
      args.norm.weight = weight.data() + begin;
      args.norm.bias = bias.data() + begin;
      ops().norm_rows(*stream, args);
      ExpectSameBits(actual.view().Columns(begin, size), alone.view(), "a part");
    }
  }
}

// Norms some columns of a wider matrix, in place, as models do with queries and keys.
TEST_P(NormRowsTest, InPlaceAmongOtherColumns) {
  Random random(2);
  constexpr int64_t kRows = 5, kCols = 90, kFirst = 20, kCount = 37;
  Random again(2);
  OwnedMatrix whole(kRows, kCols, random), before(kRows, kCols, again), expected(kRows, kCount);
  const std::vector<float> weight = random.Normals(kCount);
  NormRowsArgs args;
  args.in = args.out = whole.view().Columns(kFirst, kCount);
  args.norm = {weight.data(), kCount, 1e-6f};
  OwnedStream reference_stream(0), stream(0);
  NormRowsArgs apart = args;
  apart.in = before.view().Columns(kFirst, kCount);
  apart.out = expected.view();
  reference().norm_rows(*reference_stream, apart);
  ops().norm_rows(*stream, args);
  ExpectNear(args.out, expected.view(), 4 * kEps, (kCount + 8) * kEps, "in place");
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kCols; ++c) {
      if (c >= kFirst && c < kFirst + kCount) continue;
      EXPECT_EQ(whole.at(r, c), before.at(r, c));
    }
  }
}

TEST_P(NormRowsTest, ARowHasTheSameBitsInAnyBatch) {
  Random random(3);
  constexpr int64_t kRows = 70, kCols = 301;
  OwnedMatrix in(kRows, kCols, random), together(kRows, kCols), alone(kRows, kCols);
  const std::vector<float> weight = random.Normals(kCols);
  NormRowsArgs args;
  args.norm = {weight.data(), kCols, 1e-6f};
  args.in = in.view();
  args.out = together.view();
  OwnedStream stream(0, ExecutorOf(3));
  ops().norm_rows(*stream, args);
  for (int64_t r = 0; r < kRows; ++r) {
    args.in = in.view().Rows(r, 1);
    args.out = alone.view().Rows(r, 1);
    ops().norm_rows(*stream, args);
  }
  ExpectSameBits(together.view(), alone.view(), "norm_rows");
}

}  // namespace
}  // namespace longstream
