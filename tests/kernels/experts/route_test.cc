// Routing on every instruction set against the reference: which experts, in which order, and with
// which weights.
#include "kernels/ops/experts/route.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/experts/owned_routes.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

using testing::ElementsAre;

class RouteTest : public OpTest {
 protected:
  // Routes with one library; `args` holds all arguments but the routes.
  OwnedRoutes RouteWith(const OpTable& table, RouteArgs args, int64_t num_experts,
                        uint32_t threads = 1) {
    const int64_t rows = args.logits.rows;
    const int64_t shared = args.shared == SharedExpert::kNone ? 0 : 1;
    OwnedRoutes routes(rows, num_experts + shared, args.num_chosen + shared);
    args.routes = routes.view();
    OwnedStream stream(RouteWorkspace(rows, args.num_chosen), ExecutorOf(threads));
    table.route(*stream, args);
    EXPECT_TRUE(stream->ok());
    return routes;
  }

  void Compare(const RouteArgs& args, int64_t num_experts, const std::string& what) {
    const OwnedRoutes expected = RouteWith(reference(), args, num_experts);
    for (const uint32_t threads : ThreadCounts()) {
      const OwnedRoutes actual = RouteWith(ops(), args, num_experts, threads);
      ASSERT_EQ(actual.first(), expected.first()) << what;
      ASSERT_EQ(actual.rows(), expected.rows()) << what;
      for (size_t i = 0; i < expected.weights().size(); ++i) {
        ASSERT_NEAR(actual.weights()[i], expected.weights()[i], 1e-6) << what << " route " << i;
      }
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(RouteTest);

TEST_P(RouteTest, MatchesTheReference) {
  Random random(1);
  for (const int64_t num_experts : {1, 2, 7, 16, 33, 60, 128}) {
    for (const int64_t k : {1, 2, 6, 17}) {
      if (k > num_experts) continue;
      for (const int64_t rows : {1, 3, 21}) {
        for (const SharedExpert shared :
             {SharedExpert::kNone, SharedExpert::kPlain, SharedExpert::kGated}) {
          const int64_t cols = num_experts + (shared == SharedExpert::kGated ? 1 : 0);
          const OwnedMatrix logits(rows, cols, random, 2.0f);
          const std::vector<float> bias = random.Normals(num_experts);
          for (const bool normalise : {false, true}) {
            RouteArgs args = {
                .logits = logits.view(), .num_chosen = k, .normalise = normalise, .routes = {}};
            args.shared = shared;
            const std::string what = std::to_string(k) + " of " + std::to_string(num_experts) +
                                     " experts, rows " + std::to_string(rows);
            Compare(args, num_experts, what + ", softmax");
            args.score = RouterScore::kSigmoid;
            args.scale = 2.5f;
            Compare(args, num_experts, what + ", sigmoid");
            args.choice_bias = bias.data();
            Compare(args, num_experts, what + ", sigmoid and bias");
          }
        }
      }
    }
  }
}

// Of equal logits the experts with lower indices are chosen.
TEST_P(RouteTest, BreaksTiesByTheIndex) {
  OwnedMatrix logits(3, 5);
  const float values[3][5] = {{1, 1, 1, 1, 1}, {0, 2, 1, 2, 1}, {3, -1, 3, -1, 3}};
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t e = 0; e < 5; ++e) logits.set(r, e, values[r][e]);
  }
  const RouteArgs args = {
      .logits = logits.view(), .num_chosen = 3, .normalise = true, .routes = {}};
  const OwnedRoutes routes = RouteWith(ops(), args, 5);
  EXPECT_THAT(routes.first(), ElementsAre(0, 2, 4, 7, 8, 9));
  EXPECT_THAT(routes.rows(), ElementsAre(0, 2, 0, 1, 0, 1, 2, 1, 2));
  EXPECT_NEAR(routes.weights()[0], 1.0 / 3, 1e-6);
}

TEST_P(RouteTest, ExtremeLogits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  OwnedMatrix logits(3, 4);
  const float values[3][4] = {
      {1e30f, -1e30f, 0, 0}, {-kInfinity, -kInfinity, 5, -kInfinity}, {-200, -100, -300, -400}};
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t e = 0; e < 4; ++e) logits.set(r, e, values[r][e]);
  }
  for (const bool normalise : {false, true}) {
    Compare({.logits = logits.view(), .num_chosen = 2, .normalise = normalise, .routes = {}}, 4,
            "extreme");
  }
}

// A NaN must not hide: all weights of its row are NaN. The routes stay valid.
TEST_P(RouteTest, ANanSpoilsItsRowOnly) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const bool normalise : {false, true}) {
      for (const int64_t nan : {0, 3, 20}) {
        Random random(7);
        OwnedMatrix logits(2, 21, random);
        logits.set(0, nan, std::nanf(""));
        const OwnedRoutes routes = RouteWith(ops(),
                                             {.logits = logits.view(),
                                              .num_chosen = 4,
                                              .score = score,
                                              .normalise = normalise,
                                              .routes = {}},
                                             21);
        ASSERT_EQ(routes.first().back(), 8);
        for (size_t i = 0; i < 8; ++i) {
          EXPECT_EQ(std::isnan(routes.weights()[i]), routes.rows()[i] == 0) << nan;
        }
      }
    }
  }
}

TEST_P(RouteTest, FailsWithoutWorkspace) {
  Random random(3);
  const OwnedMatrix logits(4, 8, random);
  OwnedRoutes routes(4, 8, 2);
  OwnedStream stream(RouteWorkspace(4, 2) - 1);
  ops().route(*stream, {.logits = logits.view(), .num_chosen = 2, .routes = routes.view()});
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
}

}  // namespace
}  // namespace longstream
