// The activation of a gated attention unit on every instruction set: against the reference, and
// with the same bits for a row in any batch.
#include "kernels/ops/elementwise/gau_activate.h"

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class GauActivateTest : public OpTest {
 protected:
  // The matrix `all`: a projection [u v z], in which the op reads v and z, and columns for k behind
  // it.
  struct Unit {
    Unit(int64_t rows, int64_t e, int64_t s, Random& random)
        : all(rows, 2 * e + 2 * s, random),
          q_scale(random.Normals(s)),
          q_offset(random.Normals(s)),
          k_scale(random.Normals(s)),
          k_offset(random.Normals(s)) {
      args.v = all.view().Columns(e, e);
      args.z = args.q = all.view().Columns(2 * e, s);
      args.k = all.view().Columns(2 * e + s, s);
      args.q_scale = q_scale.data();
      args.q_offset = q_offset.data();
      args.k_scale = k_scale.data();
      args.k_offset = k_offset.data();
    }
    OwnedMatrix all;
    std::vector<float> q_scale, q_offset, k_scale, k_offset;
    GauActivateArgs args;
  };
};
LONGSTREAM_INSTANTIATE_OP_TEST(GauActivateTest);

TEST_P(GauActivateTest, MatchesTheReference) {
  for (const int64_t e : {1, 7, 16, 33, 600}) {
    for (const int64_t s : {2, 16, 30, 128}) {
      for (const int64_t rows : {1, 5}) {
        // Both units get the same random numbers.
        Random for_reference(1), for_ops(1);
        Unit expected(rows, e, s, for_reference), actual(rows, e, s, for_ops);
        OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
        reference().gau_activate(*reference_stream, expected.args);
        ops().gau_activate(*stream, actual.args);
        ASSERT_TRUE(stream->ok());
        // Every |x| is below 6. A sigmoid has a relative error of a few eps, and each later
        // operation adds one eps.
        ExpectNear(actual.all.view(), expected.all.view(), 6 * 6 * 8 * kEps, 0,
                   "e " + std::to_string(e) + " s " + std::to_string(s));
        actual.all.CheckGaps();
      }
    }
  }
}

// silu(0) = 0. For large x, silu(x) = x; for large -x, silu(x) = 0.
TEST_P(GauActivateTest, HasItsLimits) {
  Random random(2);
  Unit unit(1, 4, 2, random);
  const float values[] = {0.0f, 100.0f, -200.0f, 1.0f};
  for (int64_t i = 0; i < 4; ++i) unit.args.v.f32_row(0)[i] = values[i];
  unit.args.z.f32_row(0)[0] = 0.0f;
  unit.args.z.f32_row(0)[1] = 50.0f;
  OwnedStream stream(0);
  ops().gau_activate(*stream, unit.args);
  const float* v = unit.args.v.f32_row(0);
  EXPECT_EQ(v[0], 0.0f);
  EXPECT_EQ(v[1], 100.0f);
  EXPECT_NEAR(v[2], 0.0f, 1e-30);
  EXPECT_NEAR(v[3], 0.731058578, 4 * kEps);
  EXPECT_EQ(unit.args.q.f32_row(0)[0], unit.q_offset[0]);
  EXPECT_NEAR(unit.args.k.f32_row(0)[1], 50.0f * unit.k_scale[1] + unit.k_offset[1], 200 * kEps);
}

TEST_P(GauActivateTest, ARowHasTheSameBitsInAnyBatch) {
  constexpr int64_t kRows = 37, kE = 130, kS = 34;
  Random for_all(3), for_one(3);
  Unit together(kRows, kE, kS, for_all), alone(kRows, kE, kS, for_one);
  OwnedStream stream(0, ExecutorOf(3));
  ops().gau_activate(*stream, together.args);
  for (int64_t r = 0; r < kRows; ++r) {
    GauActivateArgs row = alone.args;
    for (Matrix* matrix : {&row.v, &row.z, &row.q, &row.k}) *matrix = matrix->Rows(r, 1);
    ops().gau_activate(*stream, row);
  }
  ExpectSameBits(together.all.view(), alone.all.view(), "gau_activate");
}

}  // namespace
}  // namespace longstream
