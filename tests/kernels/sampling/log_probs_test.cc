// Log-probabilities on every instruction set: comparisons with the reference, and special rows.
#include "kernels/ops/sampling/log_probs.h"

#include <cmath>
#include <limits>

#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class LogProbsTest : public OpTest {
 protected:
  struct Output {
    std::vector<float> log_probs;
    std::vector<TopToken> top;
  };

  static Output Run(const OpTable& table, const Matrix& logits,
                    const std::vector<LogProbsRow>& rows, int32_t top_stride) {
    Output out;
    out.log_probs.assign(rows.size(), 42.0f);
    out.top.assign(rows.size() * static_cast<size_t>(top_stride), {42, 42.0f});
    OwnedStream stream(0, ExecutorOf(3));
    table.log_probs(*stream, {logits, rows.data(), static_cast<int32_t>(rows.size()),
                              out.log_probs.data(), out.top.data(), top_stride});
    EXPECT_TRUE(stream->ok());
    return out;
  }

  void Compare(const Matrix& logits, const std::vector<LogProbsRow>& rows, int32_t top_stride) {
    const Output expected = Run(reference(), logits, rows, top_stride);
    const Output actual = Run(ops(), logits, rows, top_stride);
    const std::string what = std::string("log_probs ") + GetParam();
    // The error of the log of the sum has two parts: 4096 / 16 f32 additions in a lane, each with
    // an error of eps / 2 of the sum, and 2 ulp of exp. The difference of a logit and this log is
    // rounded once more.
    const auto expect_near = [&](float a, float e, size_t i) {
      if (std::isnan(e) || std::isinf(e)) {
        EXPECT_TRUE(std::isnan(e) ? std::isnan(a) : a == e) << what << " at " << i << ": " << a;
      } else {
        EXPECT_NEAR(a, e, 260 * kEps + kEps * std::abs(e)) << what << " at " << i;
      }
    };
    for (size_t i = 0; i < rows.size(); ++i) {
      expect_near(actual.log_probs[i], expected.log_probs[i], i);
    }
    for (size_t i = 0; i < expected.top.size(); ++i) {
      EXPECT_EQ(actual.top[i].token, expected.top[i].token) << what << " top " << i;
      expect_near(actual.top[i].log_prob, expected.top[i].log_prob, i);
    }
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(LogProbsTest);

TEST_P(LogProbsTest, MatchesTheReference) {
  Random random(1);
  for (int64_t vocabulary : {1, 2, 15, 16, 17, 33, 1000, 4097, 9000}) {
    for (float scale : {0.1f, 3.0f, 100.0f}) {
      OwnedMatrix logits(5, vocabulary, random, scale);
      std::vector<LogProbsRow> rows;
      for (int32_t row : {4, 0, 2, 2, 1, 3}) {
        rows.push_back({row, static_cast<int32_t>(random.Integer(-1, vocabulary - 1)),
                        static_cast<int32_t>(random.Integer(0, 7))});
      }
      Compare(logits.view(), rows, 7);
    }
  }
}

TEST_P(LogProbsTest, ManyTopTokensInFallingAndRisingOrder) {
  OwnedMatrix logits(2, 500);
  for (int64_t i = 0; i < 500; ++i) {
    logits.set(0, i, static_cast<float>(i) * 0.01f);
    logits.set(1, i, static_cast<float>(-i) * 0.01f);
  }
  Compare(logits.view(), {{0, 3, 32}, {1, 499, 32}}, 32);
}

TEST_P(LogProbsTest, TiesGoToTheLowestId) {
  OwnedMatrix logits(1, 100);
  for (int64_t i = 0; i < 100; ++i) logits.set(0, i, i % 10 == 3 ? 2.0f : 1.0f);
  const Output out = Run(ops(), logits.view(), {{0, -1, 12}}, 12);
  for (int n = 0; n < 10; ++n) EXPECT_EQ(out.top[n].token, 10 * n + 3);
  EXPECT_EQ(out.top[10].token, 0);
  EXPECT_EQ(out.top[11].token, 1);
  EXPECT_TRUE(std::isnan(out.log_probs[0]));
}

// If a row names a sampled token, that token is the target, and `target` is ignored.
TEST_P(LogProbsTest, TheTargetMayBeWhatWasSampled) {
  Random random(3);
  OwnedMatrix logits(2, 37, random);
  const std::vector<int32_t> sampled = {36, -1};
  const Output expected = Run(ops(), logits.view(), {{1, 36, 0}}, 1);
  const Output found =
      Run(ops(), logits.view(), {{1, 3, 0, &sampled[0]}, {1, 3, 0, &sampled[1]}}, 1);
  EXPECT_EQ(found.log_probs[0], expected.log_probs[0]);
  EXPECT_TRUE(std::isnan(found.log_probs[1]));
}

TEST_P(LogProbsTest, OneTokenIsCertain) {
  OwnedMatrix logits(1, 1);
  logits.set(0, 0, -123.0f);
  const Output out = Run(ops(), logits.view(), {{0, 0, 1}}, 1);
  EXPECT_EQ(out.log_probs[0], 0.0f);
  EXPECT_EQ(out.top[0].token, 0);
  EXPECT_EQ(out.top[0].log_prob, 0.0f);
}

TEST_P(LogProbsTest, UniformLogits) {
  OwnedMatrix logits(1, 151936);
  for (int64_t i = 0; i < logits.cols(); ++i) logits.set(0, i, 7.5f);
  const Output out = Run(ops(), logits.view(), {{0, 151935, 1}}, 1);
  EXPECT_NEAR(out.log_probs[0], -std::log(151936.0), 2e-5);
  EXPECT_EQ(out.top[0].token, 0);
}

TEST_P(LogProbsTest, SpecialRows) {
  Random random(2);
  OwnedMatrix logits(4, 37, random);
  logits.set(0, 36, kNaN);
  for (int64_t i = 0; i < 37; ++i) logits.set(1, i, -kInfinity);
  logits.set(2, 5, kInfinity);
  for (int64_t i = 3; i < 37; ++i) logits.set(3, i, -kInfinity);  // fewer tokens than num_top
  Compare(logits.view(), {{0, 1, 3}, {1, 1, 3}, {2, 1, 3}, {3, 1, 5}, {3, 9, 0}}, 5);
  const Output out = Run(ops(), logits.view(), {{0, 1, 2}}, 2);
  EXPECT_TRUE(std::isnan(out.log_probs[0]));
  EXPECT_EQ(out.top[0].token, -1);
  EXPECT_TRUE(std::isnan(out.top[1].log_prob));
}

}  // namespace
}  // namespace longstream
