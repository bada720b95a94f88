// The figures of rows of logits, against a plain computation in more than twice the precision of
// the logits.
#include "service/compare/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace longstream {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> RandomRow(size_t size, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> row(size);
  for (float& logit : row) logit = normal(random);
  return row;
}

// log p_i for all i, in long double and in the plainest way.
std::vector<long double> LogSoftmax(const std::vector<float>& row) {
  long double most = row[0];
  for (const float logit : row) most = std::max<long double>(most, logit);
  long double sum = 0;
  for (const float logit : row) sum += std::exp(logit - most);
  std::vector<long double> log_p;
  log_p.reserve(row.size());
  for (const float logit : row) log_p.push_back(logit - most - std::log(sum));
  return log_p;
}

long double PlainKl(const std::vector<float>& p, const std::vector<float>& q) {
  const std::vector<long double> log_p = LogSoftmax(p);
  const std::vector<long double> log_q = LogSoftmax(q);
  long double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (log_p[i] > -kInfinity) sum += std::exp(log_p[i]) * (log_p[i] - log_q[i]);
  }
  return sum;
}

double Kl(const std::vector<float>& p, const std::vector<float>& q) {
  return KlDivergence(p, LogSumExp(p), q, LogSumExp(q));
}

constexpr size_t kSizes[] = {1, 2, 3, 17, 255, 256, 1001, 32003, 151937};

TEST(Distribution, LogSumExpAgreesWithAPlainSum) {
  for (const size_t size : kSizes) {
    for (const float scale : {0.01f, 1.0f, 30.0f}) {
      const std::vector<float> row = RandomRow(size, scale, static_cast<uint32_t>(size));
      const long double expected = row[0] - LogSoftmax(row)[0];
      EXPECT_NEAR(LogSumExp(row), static_cast<double>(expected), 1e-12 * (1 + std::abs(expected)))
          << size << " logits, scale " << scale;
    }
  }
}

TEST(Distribution, KlAgreesWithAPlainSum) {
  for (const size_t size : kSizes) {
    for (const float scale : {0.01f, 1.0f, 30.0f}) {
      const std::vector<float> p = RandomRow(size, scale, 1);
      const std::vector<float> q = RandomRow(size, scale, 2);
      const auto expected = static_cast<double>(PlainKl(p, q));
      EXPECT_NEAR(Kl(p, q), expected, 1e-11 * (1 + expected)) << size << " logits, scale " << scale;
    }
  }
}

// Two close distributions: the terms cancel almost completely.
TEST(Distribution, KlOfCloseRowsIsExact) {
  for (const size_t size : {256u, 151937u}) {
    const std::vector<float> p = RandomRow(size, 3.0f, 1);
    std::vector<float> q = p;
    for (size_t i = 0; i < size; i += 2) q[i] += 1e-3f;
    const auto expected = static_cast<double>(PlainKl(p, q));
    EXPECT_GT(expected, 1e-9);
    EXPECT_NEAR(Kl(p, q), expected, 1e-13);
  }
}

TEST(Distribution, KlOfEqualRowsIsExactlyZero) {
  for (const size_t size : kSizes) {
    const std::vector<float> row = RandomRow(size, 10.0f, 7);
    EXPECT_EQ(Kl(row, row), 0.0);
  }
}

TEST(Distribution, KlIsNeverNegative) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> p = RandomRow(101, 5.0f, seed);
    std::vector<float> q = p;
    q[seed % 101] = std::nextafter(q[seed % 101], kInfinity);
    EXPECT_GE(Kl(p, q), 0.0) << seed;
  }
}

// All logits shifted by a constant are the same distribution.
TEST(Distribution, LargeLogitsDoNotOverflow) {
  std::vector<float> p = RandomRow(1001, 1.0f, 3);
  for (float& logit : p) logit = std::round(logit * 64) / 64;  // exact after the shift
  std::vector<float> q = p;
  for (float& logit : q) logit += 65536.0f;
  EXPECT_NEAR(LogSumExp(q) - LogSumExp(p), 65536.0, 1e-9);
  EXPECT_NEAR(Kl(p, q), 0.0, 1e-9);
  EXPECT_NEAR(Kl({3e38f, -3e38f}, {3e38f, -3e38f}), 0.0, 0.0);
}

TEST(Distribution, BannedTokens) {
  const std::vector<float> p = {1.0f, -kInfinity, 2.0f, 0.5f};
  const std::vector<float> q = {0.5f, 1.0f, 2.0f, -1.0f};
  EXPECT_NEAR(Kl(p, q), static_cast<double>(PlainKl(p, q)), 1e-15);
  EXPECT_EQ(Kl(q, p), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Kl(p, p), 0.0);
}

TEST(Distribution, NaNStaysNaN) {
  const std::vector<float> p = {1.0f, 2.0f};
  const std::vector<float> q = {1.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(KlDivergence(p, LogSumExp(p), q, 0.0)));
}

TEST(Distribution, RankCountsGreaterLogitsOnly) {
  const std::vector<float> row = {1.0f, 3.0f, -kInfinity, 3.0f, 2.0f};
  const std::vector<uint32_t> expected = {4, 1, 5, 1, 3};
  for (int32_t token = 0; token < 5; ++token) {
    EXPECT_EQ(RankOf(row, token), expected[static_cast<size_t>(token)]) << token;
  }
}

TEST(Distribution, TheBestTokenHasTheLowestIdOfEqualOnes) {
  EXPECT_EQ(BestToken(std::vector<float>{1.0f, 3.0f, -kInfinity, 3.0f}), 1);
  EXPECT_EQ(BestToken(std::vector<float>{0.0f}), 0);
}

}  // namespace
}  // namespace longstream
