// The first half of experts on every instruction set: against the reference, and against the bits
// of the op `linear` for a row alone.
#include "kernels/ops/experts/expert_hidden.h"

#include <string>
#include <vector>

#include "tests/kernels/experts/owned_experts.h"
#include "tests/kernels/experts/owned_routes.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

// The hidden rows of expert e, if its `down` is f32.
Matrix RowsOf(const std::byte* hidden, const Routes& routes, const ExpertShape& shape, int64_t e) {
  for (int64_t f = 0; f < e; ++f) {
    hidden += PreparedBytes(routes.first[f + 1] - routes.first[f], shape.WidthOf(f));
  }
  const int64_t ff = shape.WidthOf(e);
  return {const_cast<std::byte*>(hidden), DType::kF32, routes.first[e + 1] - routes.first[e], ff,
          ff};
}

class ExpertHiddenTest : public OpTest {
 protected:
  // Runs the op with the rows [0, shape.rows) of x.
  Buffer Hidden(const OpTable& table, const ExpertShape& shape, const LinearRows& in,
                const Routes& routes, const std::vector<Expert>& experts, uint32_t threads) {
    Buffer hidden(shape.HiddenBytes());
    OwnedStream stream(shape.Workspace(), ExecutorOf(threads));
    table.expert_hidden(
        *stream, {.in = in, .routes = routes, .experts = experts.data(), .hidden = hidden.data()});
    EXPECT_TRUE(stream->ok());
    return hidden;
  }

  void Compare(const ExpertShape& shape, DType type, bool norm, Random& random) {
    const OwnedMatrix x(shape.rows, shape.d, random);
    const std::vector<float> norm_weight = random.Normals(shape.d);
    LinearRows in = {.x = x.view()};
    if (norm) in.norm = {norm_weight.data(), shape.d, 1e-5f};
    const OwnedRoutes routes(shape.rows, shape.num_experts, shape.per_row, shape.shared(), random);
    OwnedExperts weights(shape, type, DType::kF32, random);
    const Buffer expected =
        Hidden(reference(), shape, in, routes.view(), weights.Pack(reference()), 1);
    const std::vector<Expert> experts = weights.Pack(ops());
    const double dot = DotTolerance(shape.d) + (norm ? RowRoundingTolerance(type, shape.d) : 0.0);
    for (const uint32_t threads : ThreadCounts()) {
      const Buffer actual = Hidden(ops(), shape, in, routes.view(), experts, threads);
      for (int64_t e = 0; e < shape.num_experts; ++e) {
        const Matrix rows = RowsOf(actual.data(), routes.view(), shape, e);
        ExpectNear(rows, RowsOf(expected.data(), routes.view(), shape, e), 10 * dot, 8 * kEps,
                   std::string(NameOf(type)) + " expert " + std::to_string(e));
        ExpectBitsOfLinear(rows, routes.view(), experts[static_cast<size_t>(e)], in, e);
      }
    }
  }

  // Each hidden row must have the bits that `linear` gives this row alone.
  void ExpectBitsOfLinear(const Matrix& rows, const Routes& routes, const Expert& expert,
                          const LinearRows& in, int64_t e) {
    const int64_t ff = expert.gate.n, d = expert.gate.k;
    OwnedStream stream(LinearWorkspace(1, d, ff));
    for (int64_t i = 0; i < rows.rows; ++i) {
      LinearRows row = in;
      row.x = in.x.Rows(routes.rows[routes.first[e] + i], 1);
      const OwnedMatrix alone(1, ff);
      ops().linear(*stream, {.in = {row, expert.gate},
                             .activation = Activation::kSilu,
                             .up = expert.up,
                             .out = alone.view()});
      ExpectSameBits(rows.Rows(i, 1), alone.view(), "row " + std::to_string(i) + " alone");
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(ExpertHiddenTest);

TEST_P(ExpertHiddenTest, MatchesTheReference) {
  Random random(1);
  for (const DType type : kWeightTypes) {
    for (const bool norm : {false, true}) {
      Compare({.rows = 1, .d = 33, .ff = 35, .num_experts = 5, .per_row = 2}, type, norm, random);
      Compare({.rows = 7, .d = 65, .ff = 129, .num_experts = 4, .per_row = 3}, type, norm, random);
      Compare({.rows = 3, .d = 1, .ff = 1, .num_experts = 1, .per_row = 1}, type, norm, random);
      Compare({.rows = 40, .d = 97, .ff = 70, .num_experts = 6, .per_row = 3, .shared_ff = 31},
              type, norm, random);
    }
  }
}

// More rows of one expert than a block of a product has, on vectors and on tiles.
TEST_P(ExpertHiddenTest, ManyRows) {
  Random random(2);
  for (const DType type : {DType::kF32, DType::kBF16, DType::kI8}) {
    Compare({.rows = 600, .d = 33, .ff = 34, .num_experts = 3, .per_row = 2, .shared_ff = 40}, type,
            true, random);
  }
}

TEST_P(ExpertHiddenTest, FailsWithoutWorkspace) {
  Random random(3);
  const ExpertShape shape = {.rows = 2, .d = 8, .ff = 8, .num_experts = 3, .per_row = 2};
  const OwnedMatrix x(2, 8, random);
  const OwnedRoutes routes(2, 3, 2, /*shared=*/false, random);
  OwnedExperts weights(shape, DType::kBF16, DType::kBF16, random);
  const std::vector<Expert> experts = weights.Pack(ops());
  const Buffer hidden(shape.HiddenBytes());
  OwnedStream stream(shape.Workspace() - 1);
  ops().expert_hidden(*stream, {.in = {.x = x.view()},
                                .routes = routes.view(),
                                .experts = experts.data(),
                                .hidden = hidden.data()});
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
}

}  // namespace
}  // namespace longstream
