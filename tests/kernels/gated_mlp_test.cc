// The gated MLP on every instruction set against the reference, and bit-equality of a row in any
// batch.
#include "kernels/ops/gated_mlp.h"

#include "kernels/ops/norm_project.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class GatedMlpTest : public OpTest {};
LONGSTREAM_INSTANTIATE_OP_TEST(GatedMlpTest);

TEST_P(GatedMlpTest, MatchesTheReference) {
  Random random(1);
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t ff : kOddSizes) {
      for (int64_t k : {1, 33, 129, 600}) {
        for (int64_t rows : {1, 7}) {
          for (bool norm : {false, true}) {
            OwnedMatrix x(rows, k, random), expected(rows, ff), actual(rows, ff);
            OwnedWeight gate(ff, k, type, random), up(ff, k, type, random);
            const std::vector<float> norm_weight = random.Normals(k);
            GatedMlpArgs args;
            args.x = x.view();
            if (norm) args.norm = {norm_weight.data(), k, 1e-5f};
            OwnedStream reference_stream(0), stream(NormProjectWorkspace(rows, k), ExecutorOf(2));
            args.gate = gate.Pack(reference());
            args.up = up.Pack(reference());
            args.out = expected.view();
            reference().gated_mlp(*reference_stream, args);
            args.gate = gate.Pack(ops());
            args.up = up.Pack(ops());
            args.out = actual.view();
            ops().gated_mlp(*stream, args);
            ASSERT_TRUE(stream->ok());
            // Both factors are off by the tolerance of a dot product; silu's slope is below 1.1 and
            // the factors are below 5 here.
            double dot = DotTolerance(k);
            if (type == DType::kBF16 && norm) dot += BF16RoundingTolerance(k);
            ExpectNear(actual.view(), expected.view(), 10 * dot, 8 * kEps,
                       std::string("gated_mlp ") + GetParam() + " " + NameOf(type) + " ff " +
                           std::to_string(ff) + " k " + std::to_string(k));
            actual.CheckGaps();
          }
        }
      }
    }
  }
}

TEST_P(GatedMlpTest, ARowHasTheSameBitsInAnyBatch) {
  Random random(2);
  constexpr int64_t kRows = 130, kFf = 97, kK = 301;
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    OwnedMatrix x(kRows, kK, random), whole(kRows, kFf), parts(kRows, kFf);
    OwnedWeight gate(kFf, kK, type, random), up(kFf, kK, type, random);
    GatedMlpArgs args;
    args.x = x.view();
    args.gate = gate.Pack(ops());
    args.up = up.Pack(ops());
    args.out = whole.view();
    OwnedStream stream(NormProjectWorkspace(kRows, kK), ExecutorOf(3));
    ops().gated_mlp(*stream, args);
    for (int64_t r = 0; r < kRows; ++r) {
      args.x = x.view().Rows(r, 1);
      args.out = parts.view().Rows(r, 1);
      ops().gated_mlp(*stream, args);
    }
    ExpectSameBits(parts.view(), whole.view(), NameOf(type));
  }
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
  OwnedStream stream(NormProjectWorkspace(1, 4));
  ops().gated_mlp(*stream, args);
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
}

}  // namespace
}  // namespace longstream
