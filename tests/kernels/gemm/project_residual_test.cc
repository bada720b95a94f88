// Projection into the residual stream on every instruction set against the reference, with every
// optional argument, and bit-equality of a row in any batch.
#include "kernels/ops/gemm/project_residual.h"

#include "kernels/ops/gemm/norm_project.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

struct Options {
  bool norm = false;
  bool gate = false;
  bool silu = false;
  bool bias = false;
  float scale = 1.0f;
};

class ProjectResidualTest : public OpTest {
 protected:
  void Compare(int64_t rows, int64_t d, int64_t k, DType type, const Options& options,
               Random& random) {
    OwnedMatrix in(rows, k, random), gate(rows, k, random), before(rows, d, random);
    OwnedWeight weight(d, k, type, random);
    const std::vector<float> norm_weight = random.Normals(k), bias = random.Normals(d);
    ProjectResidualArgs args;
    args.in = in.view();
    if (options.norm) args.norm = {norm_weight.data(), k, 1e-6f};
    if (options.gate) args.gate = gate.view();
    args.silu_gate = options.silu;
    if (options.bias) args.bias = bias.data();
    args.scale = options.scale;

    OwnedMatrix expected(before);
    OwnedStream reference_stream(0), stream(NormProjectWorkspace(rows, k), ExecutorOf(2));
    args.weight = weight.Pack(reference());
    args.x = expected.view();
    reference().project_residual(*reference_stream, args);
    args.weight = weight.Pack(ops());
    double tolerance = 2 * DotTolerance(k);
    const bool computed = options.norm || options.gate;
    if (computed) tolerance += 2 * RowRoundingTolerance(type, k);
    for (int64_t num_decode_rows : {int64_t{0}, rows}) {
      OwnedMatrix actual(before);
      args.num_decode_rows = num_decode_rows;
      args.x = actual.view();
      ops().project_residual(*stream, args);
      ASSERT_TRUE(stream->ok());
      ExpectNear(actual.view(), expected.view(), std::abs(options.scale) * tolerance, 4 * kEps,
                 std::string("project_residual ") + GetParam() + " " + NameOf(type) + " d " +
                     std::to_string(d) + " k " + std::to_string(k) + " decode rows " +
                     std::to_string(num_decode_rows) + " of " + std::to_string(rows));
      actual.CheckGaps();
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(ProjectResidualTest);

TEST_P(ProjectResidualTest, MatchesTheReferenceAtOddSizes) {
  Random random(1);
  for (DType type : kWeightTypes) {
    for (int64_t d : kOddSizes) {
      for (int64_t k : {1, 31, 65, 600}) {
        for (int64_t rows : {1, 3, 8}) Compare(rows, d, k, type, {}, random);
      }
    }
  }
}

TEST_P(ProjectResidualTest, MatchesTheReferenceWithEveryOption) {
  Random random(2);
  for (DType type : kWeightTypes) {
    for (int64_t rows : {1, 7}) {
      for (int64_t k : {7, 129, 256}) {
        Compare(rows, 65, k, type, {.norm = true}, random);
        Compare(rows, 65, k, type, {.gate = true}, random);
        Compare(rows, 65, k, type, {.gate = true, .silu = true}, random);
        Compare(rows, 65, k, type, {.bias = true}, random);
        Compare(rows, 65, k, type, {.scale = 0.25f}, random);
        Compare(rows, 65, k, type, {.norm = true, .gate = true, .bias = true, .scale = -1.5f},
                random);
      }
    }
  }
}

TEST_P(ProjectResidualTest, SumsOfTheLargestIntegers) {
  constexpr int64_t kD = 35;
  for (DType type : {DType::kI8, DType::kI4}) {
    for (int64_t k : {64, 4097}) {
      OwnedWeight weight = FlatWeight(kD, k, type, k);
      for (int64_t rows : {1, 2, 7}) {
        const OwnedMatrix in = FlatRows(rows, k, k);
        OwnedMatrix before(rows, kD);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < kD; ++c) before.set(r, c, 0.0f);
        }
        const OwnedMatrix expected(before);
        ProjectResidualArgs args;
        args.in = in.view();
        args.weight = weight.Pack(reference());
        args.x = expected.view();
        OwnedStream reference_stream(0), stream(NormProjectWorkspace(rows, k), ExecutorOf(2));
        reference().project_residual(*reference_stream, args);
        args.weight = weight.Pack(ops());
        for (int64_t num_decode_rows : {int64_t{0}, rows}) {
          const OwnedMatrix actual(before);
          args.num_decode_rows = num_decode_rows;
          args.x = actual.view();
          ops().project_residual(*stream, args);
          ExpectNear(actual.view(), expected.view(), FlatTolerance(k), 0,
                     std::string(NameOf(type)) + " k " + std::to_string(k) + " rows " +
                         std::to_string(rows));
        }
      }
    }
  }
}

// The first rows are decode rows, the others prefill rows.
TEST_P(ProjectResidualTest, ARowHasTheSameBitsInAnyBatch) {
  Random random(3);
  constexpr int64_t kRows = 130, kD = 97, kK = 301;
  for (DType type : kWeightTypes) {
    OwnedMatrix in(kRows, kK, random), gate(kRows, kK, random), before(kRows, kD, random);
    OwnedWeight weight(kD, kK, type, random);
    const std::vector<float> norm_weight = random.Normals(kK);
    ProjectResidualArgs args;
    args.norm = {norm_weight.data(), kK, 1e-6f};
    args.weight = weight.Pack(ops());
    OwnedStream stream(NormProjectWorkspace(kRows, kK), ExecutorOf(3));
    for (int64_t num_decode_rows : {int64_t{0}, int64_t{20}, kRows}) {
      OwnedMatrix whole(before), parts(before);
      args.in = in.view();
      args.gate = gate.view();
      args.x = whole.view();
      args.num_decode_rows = num_decode_rows;
      ops().project_residual(*stream, args);
      for (int64_t r = 0; r < kRows; ++r) {
        args.in = in.view().Rows(r, 1);
        args.gate = gate.view().Rows(r, 1);
        args.x = parts.view().Rows(r, 1);
        args.num_decode_rows = r < num_decode_rows ? 1 : 0;
        ops().project_residual(*stream, args);
      }
      ExpectSameBits(
          parts.view(), whole.view(),
          std::string(NameOf(type)) + " with " + std::to_string(num_decode_rows) + " decode rows");
    }
  }
}

}  // namespace
}  // namespace longstream
