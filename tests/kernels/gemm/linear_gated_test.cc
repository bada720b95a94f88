// The linear op as the first half of an MLP, gated or not, on every library against the reference.
#include <cmath>
#include <string>
#include <vector>

#include "kernels/ops/gemm/linear.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class GatedLinearTest : public OpTest {
 protected:
  void Compare(int64_t rows, int64_t ff, int64_t k, DType type, bool norm, Random& random,
               bool biased = false, Activation activation = Activation::kSilu, bool gated = true) {
    OwnedMatrix x(rows, k, random), expected(rows, ff);
    OwnedWeight gate(ff, k, type, random), up(ff, k, type, random);
    const std::vector<float> norm_weight = random.Normals(k);
    LinearRows in = {.x = x.view()};
    if (norm) in.norm = {norm_weight.data(), k, 1e-5f};
    LinearArgs args;
    args.activation = activation;
    const std::vector<float> gate_bias = random.Normals(ff);
    const std::vector<float> up_bias = random.Normals(ff);
    if (biased) {
      args.bias = gate_bias.data();
      if (gated) args.up_bias = up_bias.data();
    }
    OwnedStream reference_stream(0),
        stream(LinearWorkspace(rows, k, gated ? ff : 0), ExecutorOf(2));
    args.in = {in, gate.Pack(reference())};
    if (gated) args.up = up.Pack(reference());
    args.out = expected.view();
    reference().linear(*reference_stream, args);
    args.in = {in, gate.Pack(ops())};
    if (gated) args.up = up.Pack(ops());
    // An output is the activation of one product times the other product. Each product has at most
    // the error of a dot product. The slope of each activation is below 1.13, and both factors are
    // below 5 here. The activation's own error is smaller.
    double dot = DotTolerance(k);
    if (norm) dot += RowRoundingTolerance(type, k);
    for (int64_t num_decode_rows : {int64_t{0}, rows}) {
      OwnedMatrix actual(rows, ff);
      args.num_decode_rows = num_decode_rows;
      args.out = actual.view();
      ops().linear(*stream, args);
      ASSERT_TRUE(stream->ok());
      ExpectNear(actual.view(), expected.view(), 10 * dot, 8 * kEps,
                 std::string("gated linear ") + GetParam() + " " + NameOf(type) + " ff " +
                     std::to_string(ff) + " k " + std::to_string(k) + " decode rows " +
                     std::to_string(num_decode_rows) + " of " + std::to_string(rows));
      actual.CheckGaps();
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(GatedLinearTest);

TEST_P(GatedLinearTest, MatchesTheReference) {
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

// A GPU has one kernel for blocks of up to 8 tokens, one each for up to 16, 32 and 64, and one for
// more.
TEST_P(GatedLinearTest, MatchesTheReferenceAtMoreRows) {
  Random random(5);
  for (DType type : kWeightTypes) {
    for (int64_t rows : {8, 9, 16, 17, 33, 65}) Compare(rows, 35, 129, type, true, random);
  }
}

// A GPU's block computes one tile of outputs after the other if there are more tiles than blocks.
TEST_P(GatedLinearTest, MatchesTheReferenceWithManyOutputs) {
  Random random(13);
  for (DType type : {DType::kBF16, DType::kI8}) {
    for (int64_t ff : {2200, 1099, 801}) Compare(2, ff, 130, type, true, random);
  }
}

TEST_P(GatedLinearTest, AddsBiases) {
  Random random(6);
  for (DType type : kWeightTypes) {
    for (int64_t ff : {1, 35, 97}) {
      for (int64_t rows : {1, 7, 33}) Compare(rows, ff, 129, type, true, random, /*biased=*/true);
    }
  }
}

TEST_P(GatedLinearTest, GeluByTanh) {
  Random random(7);
  for (DType type : kWeightTypes) {
    for (int64_t ff : {1, 35, 97}) {
      for (int64_t rows : {1, 7, 33}) {
        Compare(rows, ff, 129, type, true, random, rows == 7, Activation::kGeluTanh);
      }
    }
  }
}

TEST_P(GatedLinearTest, GeluByErf) {
  Random random(8);
  for (DType type : kWeightTypes) {
    for (int64_t rows : {1, 7, 33}) {
      Compare(rows, 35, 129, type, true, random, rows == 7, Activation::kGelu);
    }
  }
}

TEST_P(GatedLinearTest, WithoutAGate) {
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

// An output is silu of one sum times the other sum. Each of the two sums has an error of at most
// FlatTolerance, and its magnitude is at most 1. The slope of silu is below 1.1. So the error of
// the output is below 3 FlatTolerance.
TEST_P(GatedLinearTest, SumsOfTheLargestIntegers) {
  constexpr int64_t kFf = 35;
  for (DType type : {DType::kI8, DType::kI4}) {
    for (int64_t k : {64, 4097}) {
      OwnedWeight gate = FlatWeight(kFf, k, type, k), up = FlatWeight(kFf, k, type, k);
      for (int64_t rows : {1, 2, 7}) {
        const OwnedMatrix x = FlatRows(rows, k, k), expected(rows, kFf);
        LinearArgs args;
        args.in = {{.x = x.view()}, gate.Pack(reference())};
        args.activation = Activation::kSilu;
        args.up = up.Pack(reference());
        args.out = expected.view();
        OwnedStream reference_stream(0), stream(LinearWorkspace(rows, k, kFf), ExecutorOf(2));
        reference().linear(*reference_stream, args);
        args.in = {{.x = x.view()}, gate.Pack(ops())};
        args.up = up.Pack(ops());
        for (int64_t num_decode_rows : {int64_t{0}, rows}) {
          const OwnedMatrix actual(rows, kFf);
          args.num_decode_rows = num_decode_rows;
          args.out = actual.view();
          ops().linear(*stream, args);
          ExpectNear(actual.view(), expected.view(), 3 * FlatTolerance(k), 0,
                     std::string(NameOf(type)) + " k " + std::to_string(k) + " rows " +
                         std::to_string(rows));
        }
      }
    }
  }
}

TEST_P(GatedLinearTest, FailsWithoutWorkspace) {
  Random random(4);
  OwnedMatrix x(2, 4, random), out(2, 3);
  OwnedWeight gate(3, 4, DType::kBF16, random), up(3, 4, DType::kBF16, random);
  LinearArgs args;
  args.in = {{.x = x.view()}, gate.Pack(ops())};
  args.activation = Activation::kSilu;
  args.up = up.Pack(ops());
  args.out = out.view();
  OwnedStream stream(LinearWorkspace(2, 4) - 1);
  ops().linear(*stream, args);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
  EXPECT_TRUE(std::isnan(out.at(0, 0)));
}

TEST_P(GatedLinearTest, RefusesWeightsOfTwoTypes) {
  Random random(3);
  OwnedMatrix x(1, 4, random), out(1, 3);
  OwnedWeight gate(3, 4, DType::kF32, random), up(3, 4, DType::kBF16, random);
  LinearArgs args;
  args.in = {{.x = x.view()}, gate.Pack(ops())};
  args.activation = Activation::kSilu;
  args.up = up.Pack(ops());
  args.out = out.view();
  OwnedStream stream(LinearWorkspace(1, 4, 3));
  ops().linear(*stream, args);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
}

}  // namespace
}  // namespace longstream
