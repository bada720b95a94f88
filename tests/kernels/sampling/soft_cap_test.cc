// The soft cap on every instruction set against the reference.
#include "kernels/ops/sampling/soft_cap.h"

#include <cmath>
#include <limits>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

class SoftCapTest : public OpTest {};
LONGSTREAM_INSTANTIATE_OP_TEST(SoftCapTest);

// One task computes a short row, and several tasks share a long one. Some rows end within a vector.
TEST_P(SoftCapTest, MatchesTheReference) {
  for (const int64_t n : {1, 15, 16, 17, 300, 8191, 8193, 20003}) {
    for (const float cap : {0.25f, 2.0f, 30.0f}) {
      Random same(1), again(1);
      OwnedMatrix expected(3, n, same, 2.0f), actual(3, n, again, 2.0f);
      OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
      reference().soft_cap(*reference_stream, {.x = expected.view(), .cap = cap});
      ops().soft_cap(*stream, {.x = actual.view(), .cap = cap});
      ASSERT_TRUE(stream->ok());
      // The errors of x / cap, of tanh and of the product.
      ExpectNear(actual.view(), expected.view(), 0.0, 8 * kEps, "n " + std::to_string(n));
      actual.CheckGaps();
    }
  }
}

TEST_P(SoftCapTest, EndsAtTheCap) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  OwnedMatrix x(1, 6);
  const float values[] = {kInfinity, -kInfinity, 1e30f, -1e4f, 0.0f, std::nanf("")};
  for (int64_t i = 0; i < 6; ++i) x.set(0, i, values[i]);
  OwnedStream stream(0);
  ops().soft_cap(*stream, {.x = x.view(), .cap = 30.0f});
  EXPECT_EQ(x.at(0, 0), 30.0f);
  EXPECT_EQ(x.at(0, 1), -30.0f);
  EXPECT_EQ(x.at(0, 2), 30.0f);
  EXPECT_EQ(x.at(0, 3), -30.0f);
  EXPECT_EQ(x.at(0, 4), 0.0f);
  EXPECT_TRUE(std::isnan(x.at(0, 5)));
}

TEST_P(SoftCapTest, CutsOff) {
  for (const int64_t n : {1, 17, 8193}) {
    Random same(1), again(1);
    OwnedMatrix expected(3, n, same, 2.0f), actual(3, n, again, 2.0f);
    expected.set(1, n - 1, std::nanf(""));
    actual.set(1, n - 1, std::nanf(""));
    OwnedStream reference_stream(0), stream(0, ExecutorOf(2));
    reference().soft_cap(*reference_stream, {.x = expected.view(), .cap = 1.5f, .cut = true});
    ops().soft_cap(*stream, {.x = actual.view(), .cap = 1.5f, .cut = true});
    ASSERT_TRUE(stream->ok());
    EXPECT_TRUE(std::isnan(actual.at(1, n - 1)));
    expected.set(1, n - 1, 0.0f);
    actual.set(1, n - 1, 0.0f);
    ExpectSameBits(actual.view(), expected.view(), "n " + std::to_string(n));
    actual.CheckGaps();
  }
  OwnedMatrix x(1, 3);
  const float values[] = {1.25f, 7.0f, -std::numeric_limits<float>::infinity()};
  for (int64_t i = 0; i < 3; ++i) x.set(0, i, values[i]);
  OwnedStream stream(0);
  ops().soft_cap(*stream, {.x = x.view(), .cap = 6.0f, .cut = true});
  EXPECT_EQ(x.at(0, 0), 1.25f);
  EXPECT_EQ(x.at(0, 1), 6.0f);
  EXPECT_EQ(x.at(0, 2), -6.0f);
}

}  // namespace
}  // namespace longstream
