// Both halves of experts on every instruction set: against the reference, and a row's bits in any
// batch.
#include "kernels/ops/experts/expert_sum.h"

#include <string>
#include <vector>

#include "tests/kernels/experts/owned_experts.h"
#include "tests/kernels/experts/owned_routes.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class ExpertSumTest : public OpTest {
 protected:
  // Computes both halves. `out` keeps its numbers if they are added to.
  void Run(const OpTable& table, const ExpertShape& shape, const Matrix& x, const Routes& routes,
           const std::vector<Expert>& experts, uint32_t threads, bool accumulate,
           const Matrix& out) {
    const Buffer hidden(shape.HiddenBytes());
    OwnedStream stream(shape.Workspace(), ExecutorOf(threads));
    table.expert_hidden(
        *stream,
        {.in = {.x = x}, .routes = routes, .experts = experts.data(), .hidden = hidden.data()});
    table.expert_sum(*stream, {.routes = routes,
                               .experts = experts.data(),
                               .hidden = hidden.data(),
                               .scale = 0.75f,
                               .accumulate = accumulate,
                               .out = out});
    EXPECT_TRUE(stream->ok());
  }

  void Compare(const ExpertShape& shape, DType in, DType down, Random& random) {
    const OwnedMatrix x(shape.rows, shape.d, random), before(shape.rows, shape.d, random);
    const OwnedRoutes routes(shape.rows, shape.num_experts, shape.per_row, shape.shared(), random);
    OwnedExperts weights(shape, in, down, random);
    const std::vector<Expert> for_reference = weights.Pack(reference());
    const std::vector<Expert> experts = weights.Pack(ops());
    // The hidden numbers, about N(0, 1/2), have errors of 10 dots. A sum over them, weights of
    // about N(0, 1) and K experts adds these up. A hidden number may be rounded to two neighbouring
    // bf16 or int8 numbers.
    const auto k = static_cast<double>(shape.per_row);
    const double tolerance =
        k * 4 *
        (11 * (DotTolerance(shape.d) + DotTolerance(std::max(shape.ff, shape.shared_ff))) +
         RowRoundingTolerance(down, std::max(shape.ff, shape.shared_ff)));
    for (const bool accumulate : {false, true}) {
      const OwnedMatrix expected(before);
      Run(reference(), shape, x.view(), routes.view(), for_reference, 1, accumulate,
          expected.view());
      for (const uint32_t threads : ThreadCounts()) {
        const OwnedMatrix actual(before);
        Run(ops(), shape, x.view(), routes.view(), experts, threads, accumulate, actual.view());
        ExpectNear(actual.view(), expected.view(), tolerance, 8 * kEps,
                   std::string(NameOf(in)) + " and " + NameOf(down) + ", rows " +
                       std::to_string(shape.rows));
        actual.CheckGaps();
      }
    }
  }

  // The routes of one row of `routes`.
  static OwnedRoutes RoutesOfRow(const Routes& routes, int64_t row) {
    OwnedRoutes one(1, routes.num_experts, routes.per_row);
    int64_t route = 0;
    for (int64_t e = 0; e < routes.num_experts; ++e) {
      one.view().first[e] = route;
      for (int64_t i = routes.first[e]; i < routes.first[e + 1]; ++i) {
        if (routes.rows[i] != row) continue;
        one.view().rows[route] = 0;
        one.view().weights[route++] = routes.weights[i];
      }
    }
    one.view().first[routes.num_experts] = route;
    return one;
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(ExpertSumTest);

TEST_P(ExpertSumTest, MatchesTheReference) {
  Random random(1);
  for (const DType type : kWeightTypes) {
    for (const DType down : {type, DType::kF32, DType::kBF16}) {
      Compare({.rows = 1, .d = 33, .ff = 35, .num_experts = 5, .per_row = 2}, type, down, random);
      Compare({.rows = 7, .d = 65, .ff = 129, .num_experts = 4, .per_row = 3}, type, down, random);
      Compare({.rows = 2, .d = 300, .ff = 1, .num_experts = 9, .per_row = 4}, type, down, random);
      Compare({.rows = 40, .d = 97, .ff = 70, .num_experts = 6, .per_row = 3, .shared_ff = 131},
              type, down, random);
    }
  }
}

// More rows of one expert than a block of a product has, on vectors and on tiles.
TEST_P(ExpertSumTest, ManyRows) {
  Random random(4);
  for (const DType type : {DType::kF32, DType::kBF16, DType::kI8}) {
    Compare({.rows = 600, .d = 33, .ff = 34, .num_experts = 3, .per_row = 2, .shared_ff = 40}, type,
            type, random);
  }
}

TEST_P(ExpertSumTest, ARowHasTheSameBitsInAnyBatch) {
  Random random(2);
  for (const DType type : kWeightTypes) {
    for (const int64_t rows : {2, 19, 290}) {
      const ExpertShape shape = {
          .rows = rows, .d = 161, .ff = 99, .num_experts = 5, .per_row = 3, .shared_ff = 33};
      const OwnedMatrix x(rows, shape.d, random), whole(rows, shape.d, random);
      const OwnedMatrix before(whole);
      const OwnedRoutes routes(rows, shape.num_experts, shape.per_row, true, random);
      OwnedExperts weights(shape, type, type, random);
      const std::vector<Expert> experts = weights.Pack(ops());
      Run(ops(), shape, x.view(), routes.view(), experts, 3, true, whole.view());
      ExpertShape one = shape;
      one.rows = 1;
      for (int64_t r = 0; r<rows; r += rows> 100 ? 17 : 1) {
        const OwnedRoutes alone = RoutesOfRow(routes.view(), r);
        const Matrix out = before.view().Rows(r, 1);
        Run(ops(), one, x.view().Rows(r, 1), alone.view(), experts, 2, true, out);
        ExpectSameBits(out, whole.view().Rows(r, 1),
                       std::string(NameOf(type)) + " row " + std::to_string(r) + " of " +
                           std::to_string(rows));
      }
    }
  }
}

TEST_P(ExpertSumTest, FailsWithoutWorkspace) {
  Random random(3);
  const ExpertShape shape = {.rows = 2, .d = 8, .ff = 8, .num_experts = 3, .per_row = 2};
  const OwnedRoutes routes(2, 3, 2, /*shared=*/false, random);
  OwnedExperts weights(shape, DType::kBF16, DType::kBF16, random);
  const std::vector<Expert> experts = weights.Pack(ops());
  const Buffer hidden(shape.HiddenBytes());
  const OwnedMatrix out(2, 8);
  OwnedStream stream(shape.Workspace() - 1);
  ops().expert_sum(*stream, {.routes = routes.view(),
                             .experts = experts.data(),
                             .hidden = hidden.data(),
                             .out = out.view()});
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
}

}  // namespace
}  // namespace longstream
