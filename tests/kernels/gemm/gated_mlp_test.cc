// The gated MLP on every instruction set against the reference, and bit-equality of a row in any
// batch.
#include "kernels/ops/gemm/gated_mlp.h"

#include <algorithm>

#include "kernels/ops/gemm/norm_project.h"
#include "kernels/ops/gemm/project_residual.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class GatedMlpTest : public OpTest {
 protected:
  void Compare(int64_t rows, int64_t ff, int64_t k, DType type, bool norm, Random& random,
               bool biased = false, Activation activation = Activation::kSilu, bool gated = true) {
    OwnedMatrix x(rows, k, random), expected(rows, ff);
    OwnedWeight gate(ff, k, type, random), up(ff, k, type, random);
    const std::vector<float> norm_weight = random.Normals(k);
    GatedMlpArgs args;
    args.x = x.view();
    args.activation = activation;
    if (norm) args.norm = {norm_weight.data(), k, 1e-5f};
    const std::vector<float> gate_bias = random.Normals(ff);
    const std::vector<float> up_bias = random.Normals(ff);
    if (biased) {
      args.gate_bias = gate_bias.data();
      if (gated) args.up_bias = up_bias.data();
    }
    OwnedStream reference_stream(0), stream(GatedMlpWorkspace(rows, k, ff), ExecutorOf(2));
    args.gate = gate.Pack(reference());
    if (gated) args.up = up.Pack(reference());
    args.out = expected.view();
    reference().gated_mlp(*reference_stream, args);
    args.gate = gate.Pack(ops());
    if (gated) args.up = up.Pack(ops());
    // Both factors are off by the tolerance of a dot product; the slope of each activation is
    // below 1.13 and the factors are below 5 here. An activation itself is off by less.
    double dot = DotTolerance(k);
    if (norm) dot += RowRoundingTolerance(type, k);
    for (int64_t num_decode_rows : {int64_t{0}, rows}) {
      OwnedMatrix actual(rows, ff);
      args.num_decode_rows = num_decode_rows;
      args.out = actual.view();
      ops().gated_mlp(*stream, args);
      ASSERT_TRUE(stream->ok());
      ExpectNear(actual.view(), expected.view(), 10 * dot, 8 * kEps,
                 std::string("gated_mlp ") + GetParam() + " " + NameOf(type) + " ff " +
                     std::to_string(ff) + " k " + std::to_string(k) + " decode rows " +
                     std::to_string(num_decode_rows) + " of " + std::to_string(rows));
      actual.CheckGaps();
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(GatedMlpTest);

TEST_P(GatedMlpTest, MatchesTheReference) {
  Random random(1);
  for (DType type : kWeightTypes) {
    for (int64_t ff : kOddSizes) {
      for (int64_t k : {1, 33, 129, 600}) {
        for (int64_t rows : {1, 7}) {
          for (bool norm : {false, true}) Compare(rows, ff, k, type, norm, random);
        }
      }
    }
  }
}

// Up to 8, 16, 32 and 64 tokens of a block of a GPU, and more: a kernel each.
TEST_P(GatedMlpTest, MatchesTheReferenceAtMoreRows) {
  Random random(5);
  for (DType type : kWeightTypes) {
    for (int64_t rows : {8, 9, 16, 17, 33, 65}) Compare(rows, 35, 129, type, true, random);
  }
}

TEST_P(GatedMlpTest, AddsBiases) {
  Random random(6);
  for (DType type : kWeightTypes) {
    for (int64_t ff : {1, 35, 97}) {
      for (int64_t rows : {1, 7, 33}) Compare(rows, ff, 129, type, true, random, /*biased=*/true);
    }
  }
}

TEST_P(GatedMlpTest, GeluByTanh) {
  Random random(7);
  for (DType type : kWeightTypes) {
    for (int64_t ff : {1, 35, 97}) {
      for (int64_t rows : {1, 7, 33}) {
        Compare(rows, ff, 129, type, true, random, rows == 7, Activation::kGeluTanh);
      }
    }
  }
}

TEST_P(GatedMlpTest, GeluByErf) {
  Random random(8);
  for (DType type : kWeightTypes) {
    for (int64_t rows : {1, 7, 33}) {
      Compare(rows, 35, 129, type, true, random, rows == 7, Activation::kGelu);
    }
  }
}

TEST_P(GatedMlpTest, WithoutAGate) {
  Random random(9);
  for (DType type : kWeightTypes) {
    for (int64_t ff : {1, 35, 97}) {
      for (int64_t rows : {1, 7, 33}) {
        for (Activation activation :
             {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu}) {
          Compare(rows, ff, 129, type, true, random, rows != 7, activation, /*gated=*/false);
        }
      }
    }
  }
}

// Both sums are off by their tolerance at most and below 1 in size, and the slope of silu is below
// 1.1.
TEST_P(GatedMlpTest, SumsOfTheLargestIntegers) {
  constexpr int64_t kFf = 35;
  for (DType type : {DType::kI8, DType::kI4}) {
    for (int64_t k : {64, 4097}) {
      OwnedWeight gate = FlatWeight(kFf, k, type, k), up = FlatWeight(kFf, k, type, k);
      for (int64_t rows : {1, 2, 7}) {
        const OwnedMatrix x = FlatRows(rows, k, k), expected(rows, kFf);
        GatedMlpArgs args;
        args.x = x.view();
        args.gate = gate.Pack(reference());
        args.up = up.Pack(reference());
        args.out = expected.view();
        OwnedStream reference_stream(0), stream(GatedMlpWorkspace(rows, k, kFf), ExecutorOf(2));
        reference().gated_mlp(*reference_stream, args);
        args.gate = gate.Pack(ops());
        args.up = up.Pack(ops());
        for (int64_t num_decode_rows : {int64_t{0}, rows}) {
          const OwnedMatrix actual(rows, kFf);
          args.num_decode_rows = num_decode_rows;
          args.out = actual.view();
          ops().gated_mlp(*stream, args);
          ExpectNear(actual.view(), expected.view(), 3 * FlatTolerance(k), 0,
                     std::string(NameOf(type)) + " k " + std::to_string(k) + " rows " +
                         std::to_string(rows));
        }
      }
    }
  }
}

// The first rows are decode rows, the others prefill rows.
TEST_P(GatedMlpTest, ARowHasTheSameBitsInAnyBatch) {
  Random random(2);
  constexpr int64_t kRows = 130, kFf = 97, kK = 301;
  for (DType type : kWeightTypes) {
    OwnedMatrix x(kRows, kK, random);
    OwnedWeight gate(kFf, kK, type, random), up(kFf, kK, type, random);
    const std::vector<float> norm_weight = random.Normals(kK);
    GatedMlpArgs args;
    args.norm = {norm_weight.data(), kK, 1e-5f};
    args.gate = gate.Pack(ops());
    args.up = up.Pack(ops());
    OwnedStream stream(GatedMlpWorkspace(kRows, kK, kFf), ExecutorOf(3));
    for (int64_t num_decode_rows : {int64_t{0}, int64_t{20}, kRows}) {
      OwnedMatrix whole(kRows, kFf), parts(kRows, kFf);
      args.x = x.view();
      args.out = whole.view();
      args.num_decode_rows = num_decode_rows;
      ops().gated_mlp(*stream, args);
      for (int64_t r = 0; r < kRows; ++r) {
        args.x = x.view().Rows(r, 1);
        args.out = parts.view().Rows(r, 1);
        args.num_decode_rows = r < num_decode_rows ? 1 : 0;
        ops().gated_mlp(*stream, args);
      }
      ExpectSameBits(
          parts.view(), whole.view(),
          std::string(NameOf(type)) + " with " + std::to_string(num_decode_rows) + " decode rows");
    }
  }
}

// A product of rows that were left for it has the bits that it has of the same rows in f32.
TEST_P(GatedMlpTest, LeavesRowsForTheirReader) {
  Random random(10);
  constexpr int64_t kD = 33, kK = 65;
  for (DType type : kWeightTypes) {
    for (int64_t ff : {1, 15, 16, 17, 31, 33, 64, 97, 128, 300}) {
      OwnedWeight gate(ff, kK, DType::kBF16, random), up(ff, kK, DType::kBF16, random);
      OwnedWeight down(kD, ff, type, random);
      const PackedWeight reader = down.Pack(ops());
      for (int64_t rows : {1, 3, 16, 257}) {
        const bool gated = rows != 3;
        const OwnedMatrix x(rows, kK, random);
        OwnedStream stream(
            std::max(GatedMlpWorkspace(rows, kK, ff), NormProjectWorkspace(rows, ff)),
            ExecutorOf(2));
        const OwnedMatrix plain(rows, ff);
        const Buffer left(NormProjectWorkspace(rows, ff));
        GatedMlpArgs args;
        args.x = x.view();
        args.gate = gate.Pack(ops());
        if (gated) args.up = up.Pack(ops());
        args.out = plain.view();
        ops().gated_mlp(*stream, args);
        args.out = {left.data(), DType::kF32, rows, ff, ff};
        args.reader = reader;
        ops().gated_mlp(*stream, args);

        Random again(3), same(3);
        const OwnedMatrix expected(rows, kD), actual(rows, kD);
        const OwnedMatrix sum(rows, kD, again), other_sum(rows, kD, same);
        const auto project = [&](const Matrix& in, bool prepared, const Matrix& out,
                                 const Matrix& residual) {
          ops().norm_project(*stream,
                             {.x = in, .prepared = prepared, .weight = reader, .out = out});
          ops().project_residual(*stream,
                                 {.in = in, .prepared = prepared, .weight = reader, .x = residual});
        };
        project(plain.view(), false, expected.view(), sum.view());
        project(args.out, true, actual.view(), other_sum.view());
        ASSERT_TRUE(stream->ok());
        const std::string what = std::string(NameOf(type)) + " ff " + std::to_string(ff) +
                                 " rows " + std::to_string(rows);
        ExpectSameBits(actual.view(), expected.view(), what);
        ExpectSameBits(other_sum.view(), sum.view(), what + ", added");
      }
    }
  }
}

TEST_P(GatedMlpTest, FailsWithoutWorkspace) {
  Random random(4);
  OwnedMatrix x(2, 4, random), out(2, 3);
  OwnedWeight gate(3, 4, DType::kBF16, random), up(3, 4, DType::kBF16, random);
  GatedMlpArgs args;
  args.x = x.view();
  args.gate = gate.Pack(ops());
  args.up = up.Pack(ops());
  args.out = out.view();
  OwnedStream stream(NormProjectWorkspace(2, 4) - 1);
  ops().gated_mlp(*stream, args);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));
}

TEST_P(GatedMlpTest, RefusesWeightsOfTwoTypes) {
  Random random(3);
  OwnedMatrix x(1, 4, random), out(1, 3);
  OwnedWeight gate(3, 4, DType::kF32, random), up(3, 4, DType::kBF16, random);
  GatedMlpArgs args;
  args.x = x.view();
  args.gate = gate.Pack(ops());
  args.up = up.Pack(ops());
  args.out = out.view();
  OwnedStream stream(GatedMlpWorkspace(1, 4, 3));
  ops().gated_mlp(*stream, args);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
}

}  // namespace
}  // namespace longstream
