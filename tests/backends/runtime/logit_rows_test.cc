// The work of a step for rows that need no logits. invariance_test.cc tests that the other rows
// have the same bits.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/reference/reference_ops.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/model_driver.h"

namespace longstream {
namespace {

// A call for each layer's MLP: its rows, and how many of them are decode rows.
using MlpCalls = std::vector<std::pair<int64_t, int64_t>>;
MlpCalls& CallsOfMlp() {
  static MlpCalls calls;
  return calls;
}

TEST(LogitRowsTest, OthersEndBehindTheLastMixer) {
  OpTable ops = ReferenceOps();
  ops.linear = [](Stream& stream, const LinearArgs& args) {
    if (args.activation != Activation::kNone) {
      CallsOfMlp().emplace_back(args.out.rows().rows, args.num_decode_rows);
    }
    ReferenceOps().linear(stream, args);
  };
  ModelSpec spec = RandomSpec("full+gated");
  ModelWeights weights = RandomWeights(spec, DType::kF32, ReferenceOps());
  Model model(std::move(spec), std::move(weights), DType::kF32, ops, Executor(),
              ModelLimits{0, 512, 8});
  const auto first = CreateReserved(model, 50), second = CreateReserved(model, 50);
  const auto third = CreateReserved(model, 50);
  const std::vector<int32_t> piece = RandomTokens(10, 71);
  const auto calls = [&](const std::vector<Piece>& pieces) {
    CallsOfMlp().clear();
    Step(model, pieces);
    return CallsOfMlp();
  };
  EXPECT_EQ(calls({{first.get(), piece}}), (MlpCalls{{10, 0}, {10, 0}}));
  EXPECT_EQ(calls({{second.get(), piece, false, LS_ROWS_LAST}}), (MlpCalls{{10, 0}, {1, 0}}));
  EXPECT_EQ(calls({{third.get(), piece, false, LS_ROWS_NONE}}), (MlpCalls{{10, 0}}));
  EXPECT_EQ(calls({{first.get(), {5}, /*is_decode=*/true, LS_ROWS_NONE},
                   {second.get(), {6}, /*is_decode=*/true, LS_ROWS_LAST},
                   {third.get(), piece, /*is_decode=*/false, LS_ROWS_LAST}}),
            (MlpCalls{{12, 2}, {2, 1}}));
}

}  // namespace
}  // namespace longstream
