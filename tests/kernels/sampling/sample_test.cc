// Sampling on every instruction set. Tokens are compared with those of the reference and with
// tokens that were computed by hand. Other tests check invariants and statistics.
#include "kernels/ops/sampling/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/core/philox.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The known answers that the generator's authors publish (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

class SampleTest : public OpTest {
 protected:
  static std::vector<int32_t> Run(const OpTable& table, const Matrix& logits,
                                  const std::vector<SamplingRow>& rows, uint32_t threads = 3) {
    const int32_t num_rows = static_cast<int32_t>(rows.size());
    std::vector<int32_t> sampled(rows.size(), -7);
    OwnedStream stream(SampleWorkspace(num_rows, logits.cols), ExecutorOf(threads));
    table.sample(*stream, {logits, rows.data(), num_rows, sampled.data()});
    EXPECT_TRUE(stream->ok());
    return sampled;
  }

  int32_t Draw(const OwnedMatrix& logits, const SamplingRow& row) {
    return Run(ops(), logits.view(), {row}).front();
  }

  // Draws tokens with the given parameters from random logits, at many seeds and positions.
  void CompareManyDraws(int64_t vocabulary, float scale, SamplingRow parameters, uint64_t seed) {
    Random random(seed);
    OwnedMatrix logits(8, vocabulary, random, scale);
    std::vector<SamplingRow> rows;
    const int num_draws = vocabulary < 100 ? 64 : 8;  // the reference sorts each row
    for (int i = 0; i < num_draws; ++i) {
      parameters.row = i % 8;
      parameters.seed =
          static_cast<uint64_t>(random.Integer(0, std::numeric_limits<int64_t>::max()));
      parameters.position = random.Integer(0, int64_t{1} << 40);
      rows.push_back(parameters);
    }
    EXPECT_EQ(Run(ops(), logits.view(), rows), Run(reference(), logits.view(), rows))
        << "vocabulary " << vocabulary << " scale " << scale << " temperature "
        << parameters.temperature << " top_k " << parameters.top_k << " top_p " << parameters.top_p
        << " min_p " << parameters.min_p;
  }

  static OwnedMatrix Logits(const std::vector<float>& values) {
    OwnedMatrix logits(1, static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) logits.set(0, static_cast<int64_t>(i), values[i]);
    return logits;
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(SampleTest);

TEST_P(SampleTest, MatchesTheReference) {
  uint64_t seed = 1;
  for (int64_t vocabulary : {1, 2, 16, 33, 1000, 5000}) {
    for (float scale : {0.5f, 4.0f}) {
      for (float temperature : {0.0f, 0.3f, 1.0f, 2.0f}) {
        for (int32_t top_k : {0, 1, 5, 40, 4000}) {
          for (float top_p : {1.0f, 0.95f, 0.3f}) {
            SamplingRow row;
            row.temperature = temperature;
            row.top_k = top_k;
            row.top_p = top_p;
            row.min_p = seed % 3 == 0 ? 0.1f : 0.0f;
            CompareManyDraws(vocabulary, scale, row, seed++);
          }
        }
      }
    }
  }
}

// In a flat distribution, top-p keeps most of the vocabulary. Logits that rise with the id are the
// worst case for a selection whose threshold rises.
TEST_P(SampleTest, MatchesTheReferenceInTheWorstCasesOfSelection) {
  OwnedMatrix logits(3, 20000);
  for (int64_t i = 0; i < logits.cols(); ++i) {
    logits.set(0, i, static_cast<float>(i) * 1e-4f);
    logits.set(1, i, static_cast<float>(-i) * 1e-4f);
    logits.set(2, i, static_cast<float>(i % 7) * 1e-3f);
  }
  std::vector<SamplingRow> rows;
  for (int32_t row = 0; row < 3; ++row) {
    for (int32_t top_k : {0, 3, 50, 15000}) {
      for (float top_p : {0.1f, 0.9f, 1.0f}) {
        for (uint64_t seed : {1, 2, 3, 4}) {
          SamplingRow parameters;
          parameters.row = row;
          parameters.seed = seed;
          parameters.temperature = 1.0f;
          parameters.top_k = top_k;
          parameters.top_p = top_p;
          rows.push_back(parameters);
        }
      }
    }
  }
  EXPECT_EQ(Run(ops(), logits.view(), rows), Run(reference(), logits.view(), rows));
}

// All tokens are equally likely, so each has the probability mass of the likeliest one. If an
// integer of 64 bits counted a mass of 2^44 for each, 2^20 tokens would add up to 2^64, which is 0
// in 64 bits.
TEST_P(SampleTest, DrawsFromAMillionTokens) {
  OwnedMatrix logits(1, int64_t{1} << 20);
  for (int64_t i = 0; i < logits.cols(); ++i) logits.set(0, i, 0.0f);
  SamplingRow row;
  row.temperature = 1.0f;
  row.top_p = 0.25f;
  row.seed = 3;
  const int32_t expected = Run(reference(), logits.view(), {row}).front();
  EXPECT_GT(expected, 0);
  EXPECT_EQ(Draw(logits, row), expected);
}

TEST_P(SampleTest, MatchesTheReferenceWithPenaltiesAndBias) {
  Random random(5);
  OwnedMatrix logits(4, 777, random, 3.0f);
  std::vector<TokenCount> history;
  std::vector<LogitBias> bias = {{3, -kInfinity}, {700, 2.5f}, {701, -2.5f}};
  for (int32_t token = 0; token < 777; token += 5) {
    const int32_t total = static_cast<int32_t>(random.Integer(0, 4));
    history.push_back({token, total, static_cast<int32_t>(random.Integer(0, total))});
  }
  std::vector<SamplingRow> rows;
  for (int32_t i = 0; i < 200; ++i) {
    SamplingRow row;
    row.row = i % 4;
    row.seed = static_cast<uint64_t>(i);
    row.temperature = i % 5 == 0 ? 0.0f : 0.8f;
    row.top_k = i % 3 == 0 ? 20 : 0;
    row.repetition_penalty = i % 2 == 0 ? 1.3f : 1.0f;
    row.presence_penalty = i % 7 == 0 ? 0.7f : 0.0f;
    row.frequency_penalty = i % 4 == 0 ? 0.2f : 0.0f;
    row.history = history.data();
    row.num_history = static_cast<int32_t>(history.size());
    row.bias = bias.data();
    row.num_bias = i % 6 == 0 ? 0 : static_cast<int32_t>(bias.size());
    rows.push_back(row);
  }
  EXPECT_EQ(Run(ops(), logits.view(), rows), Run(reference(), logits.view(), rows));
}

TEST_P(SampleTest, TheThreadsAndTheBatchDoNotMatter) {
  Random random(6);
  OwnedMatrix logits(16, 3001, random, 2.0f);
  std::vector<SamplingRow> rows;
  for (int32_t i = 0; i < 16; ++i) {
    SamplingRow row;
    row.row = i;
    row.seed = 99;
    row.position = 1000 + i;
    row.temperature = 0.9f;
    row.top_p = i % 2 == 0 ? 0.9f : 1.0f;
    rows.push_back(row);
  }
  const std::vector<int32_t> together = Run(ops(), logits.view(), rows, 1);
  EXPECT_EQ(Run(ops(), logits.view(), rows, 2), together);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(Run(ops(), logits.view(), {rows[i]}).front(), together[i]) << i;
  }
}

// On a GPU, a row that is drawn alone is divided into more thread blocks than each of many rows.
TEST_P(SampleTest, TheNumberOfRowsDoesNotMatter) {
  Random random(10);
  OwnedMatrix logits(4, 20000, random, 2.0f);
  for (int64_t i = 0; i < logits.cols(); ++i) {
    logits.set(1, i, std::round(logits.at(1, i)));                // many equal logits
    logits.set(2, i, 1e-4f * std::round(100 * logits.at(2, i)));  // a bin's list overflows
  }
  std::vector<SamplingRow> rows(70);
  for (int32_t i = 0; i < 70; ++i) {
    SamplingRow& row = rows[i];
    row.row = i % 4;
    row.seed = static_cast<uint64_t>(i);
    row.temperature = i % 5 == 0 ? 0.0f : 0.9f;
    row.top_k = i % 3 == 0 ? 0 : 100 * i + 1;
    row.top_p = i % 2 == 0 ? 0.9f : 1.0f;
    row.min_p = i % 7 == 0 ? 0.05f : 0.0f;
  }
  const std::vector<int32_t> together = Run(ops(), logits.view(), rows);
  for (size_t i = 0; i < rows.size(); i += 3) {
    EXPECT_EQ(Run(ops(), logits.view(), {rows[i]}).front(), together[i]) << i;
  }
  EXPECT_EQ(together, Run(reference(), logits.view(), rows));
}

// On a GPU, a thread block computes 1024 tokens of a row. At the borders between the tokens of two
// blocks there are equal logits, cuts, penalties and biases on both sides.
TEST_P(SampleTest, MatchesTheReferenceWhereBlocksMeet) {
  OwnedMatrix logits(2, 5000);
  std::vector<TokenCount> history;
  std::vector<LogitBias> bias;
  for (int64_t i = 0; i < logits.cols(); ++i) {
    logits.set(0, i, i == 4999 || (i + 2) % 1024 < 4 ? 5.0f : 0.0f);
    logits.set(1, i, 0.0f);
  }
  for (const int32_t id : {4999, 4096, 4095, 3071, 3072, 1024, 1023, 2048, 2047, 0}) {
    history.push_back({id, 1 + id % 3, id % 3});
    bias.push_back({id, 6.0f + static_cast<float>(id % 2)});
  }
  bias[3].bias = -kInfinity;
  std::vector<SamplingRow> rows;
  for (int32_t i = 0; i < 480; ++i) {
    SamplingRow row;
    row.row = i % 2;
    row.seed = static_cast<uint64_t>(i);
    row.temperature = i % 10 == 0 ? 0.0f : 0.7f;
    row.top_k = i % 3 == 0 ? 0 : i % 14;
    row.top_p = i % 4 < 2 ? 0.6f : 1.0f;
    row.min_p = i % 5 == 0 ? 0.3f : 0.0f;
    row.repetition_penalty = 1.5f;
    row.presence_penalty = 0.25f;
    row.frequency_penalty = 0.125f;
    row.history = history.data();
    row.num_history = i % 7 < 3 ? static_cast<int32_t>(history.size()) : 0;
    row.bias = bias.data();
    row.num_bias = row.row == 1 || i % 11 < 4 ? static_cast<int32_t>(bias.size()) : 0;
    rows.push_back(row);
  }
  EXPECT_EQ(Run(ops(), logits.view(), rows), Run(reference(), logits.view(), rows));
}

// There are one likely token and many equally unlikely ones, of which top-k and top-p keep some.
// With 5000 tokens the equal ones fit in a list of candidates, with 20000 they do not.
TEST_P(SampleTest, MatchesTheReferenceWhereManyEqualsAreCut) {
  for (const int64_t vocabulary : {5000, 20000}) {
    OwnedMatrix logits(1, vocabulary);
    for (int64_t i = 0; i < vocabulary; ++i) logits.set(0, i, i == 3000 ? 7.0f : 0.0f);
    std::vector<SamplingRow> rows;
    for (int32_t i = 0; i < 240; ++i) {
      SamplingRow row;
      row.seed = static_cast<uint64_t>(i);
      row.temperature = 1.0f;
      row.top_k = i % 2 == 0 ? 0 : static_cast<int32_t>(vocabulary / 2);
      row.top_p = i % 4 < 2 ? 1.0f : 0.75f;
      row.min_p = i % 5 == 0 ? 0.1f : 0.0f;
      rows.push_back(row);
    }
    EXPECT_EQ(Run(ops(), logits.view(), rows), Run(reference(), logits.view(), rows));
  }
}

TEST_P(SampleTest, GreedyTakesTheLargestAndOfEqualsTheFirst) {
  EXPECT_EQ(Draw(Logits({1, 5, 2, 5, 0}), {}), 1);
  OwnedMatrix logits(1, 200);
  for (int64_t i = 0; i < 200; ++i) logits.set(0, i, i >= 30 ? 1.0f : 0.0f);
  EXPECT_EQ(Draw(logits, {}), 30);
  logits.set(0, 199, 1.5f);
  EXPECT_EQ(Draw(logits, {}), 199);
  EXPECT_EQ(Draw(Logits({0.0f, -0.0f}), {}), 0);
  EXPECT_EQ(Draw(Logits({-0.0f, 0.0f}), {}), 0);
}

TEST_P(SampleTest, TopK1IsGreedy) {
  Random random(7);
  OwnedMatrix logits(1, 500, random);
  logits.set(0, 123, 50.0f);
  logits.set(0, 321, 50.0f);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SamplingRow row;
    row.seed = seed;
    row.temperature = 5.0f;
    row.top_k = 1;
    EXPECT_EQ(Draw(logits, row), 123);
    row.top_k = 0;
    row.top_p = 1e-6f;
    EXPECT_EQ(Draw(logits, row), 123);
  }
}

// On a GPU, one thread block computes a row of 67 tokens, and several blocks share a row of 5000.
TEST_P(SampleTest, NaNAndBans) {
  Random random(8);
  for (const int64_t vocabulary : {67, 5000}) {
    for (const float temperature : {0.0f, 1.0f}) {
      for (const int32_t top_k : {0, 3}) {
        const auto last = static_cast<int32_t>(vocabulary - 1);
        SamplingRow row;
        row.temperature = temperature;
        row.top_k = top_k;
        OwnedMatrix logits(1, vocabulary, random);
        logits.set(0, last, kNaN);
        EXPECT_EQ(Draw(logits, row), -1);
        const std::vector<LogitBias> ban_last = {{last, -kInfinity}};
        row.bias = ban_last.data();
        row.num_bias = 1;
        EXPECT_EQ(Draw(logits, row), -1);  // a NaN counts even if its token is banned
        row.num_bias = 0;
        for (int64_t i = 0; i < vocabulary; ++i) logits.set(0, i, -kInfinity);
        EXPECT_EQ(Draw(logits, row), -1);
        for (const int32_t only : {41, last}) {  // the only token that is not banned
          logits.set(0, only, -1e30f);
          EXPECT_EQ(Draw(logits, row), only);
          const std::vector<LogitBias> ban = {{only, -kInfinity}};
          row.bias = ban.data();
          row.num_bias = 1;
          EXPECT_EQ(Draw(logits, row), -1);
          row.num_bias = 0;
          logits.set(0, only, -kInfinity);
        }
      }
    }
  }
}

// The expected tokens are computed by hand for z = {2, -1, 0.5, 1.9}.
TEST_P(SampleTest, PenaltiesAndBiasByHand) {
  const OwnedMatrix logits = Logits({2.0f, -1.0f, 0.5f, 1.9f});
  const std::vector<TokenCount> prompt_only = {{0, 3, 0}};
  const std::vector<TokenCount> generated = {{0, 2, 2}};
  SamplingRow row;
  row.history = prompt_only.data();
  row.num_history = 1;
  EXPECT_EQ(Draw(logits, row), 0);
  row.repetition_penalty = 1.04f;  // 2 / 1.04 = 1.923 > 1.9
  EXPECT_EQ(Draw(logits, row), 0);
  row.repetition_penalty = 1.06f;  // 2 / 1.06 = 1.887 < 1.9
  EXPECT_EQ(Draw(logits, row), 3);
  row.repetition_penalty = 1.0f;
  row.presence_penalty = 10.0f;  // counts generated tokens only
  row.frequency_penalty = 10.0f;
  EXPECT_EQ(Draw(logits, row), 0);
  row.history = generated.data();
  row.presence_penalty = 0.09f;
  row.frequency_penalty = 0.0f;  // 2 - 0.09 = 1.91
  EXPECT_EQ(Draw(logits, row), 0);
  row.frequency_penalty = 0.01f;  // 2 - 0.09 - 0.02 = 1.89
  EXPECT_EQ(Draw(logits, row), 3);
  const std::vector<LogitBias> bias = {{1, 2.95f}, {3, -5.0f}};  // -1 + 2.95 = 1.95
  row.bias = bias.data();
  row.num_bias = 2;
  EXPECT_EQ(Draw(logits, row), 1);
  // A negative logit is multiplied: -1 * 2 = -2 < -1.5.
  const OwnedMatrix negative = Logits({-1.0f, -1.5f});
  SamplingRow penalised;
  penalised.history = prompt_only.data();
  penalised.num_history = 1;
  penalised.repetition_penalty = 2.0f;
  EXPECT_EQ(Draw(negative, penalised), 1);
}

// The tokens that occur in `sampled`, which has draws with many seeds.
std::vector<int32_t> Support(const std::vector<int32_t>& sampled) {
  std::vector<int32_t> support = sampled;
  std::sort(support.begin(), support.end());
  support.erase(std::unique(support.begin(), support.end()), support.end());
  return support;
}

TEST_P(SampleTest, TruncationsKeepWhatTheySay) {
  // The probabilities are 0.4, 0.3, 0.1, 0.1, 0.06 and 0.04, at ids in another order.
  const OwnedMatrix logits = Logits({std::log(0.1f), std::log(0.4f), std::log(0.06f),
                                     std::log(0.1f), std::log(0.3f), std::log(0.04f)});
  const auto support = [&](SamplingRow row) {
    std::vector<SamplingRow> rows(3000, row);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].temperature = 1.0f;
      rows[i].position = static_cast<int64_t>(i);
    }
    return Support(Run(ops(), logits.view(), rows));
  };
  using Ids = std::vector<int32_t>;
  SamplingRow row;
  EXPECT_EQ(support(row), (Ids{0, 1, 2, 3, 4, 5}));
  row.top_k = 3;  // of two equal tokens, top_k keeps the one with the lower id
  EXPECT_EQ(support(row), (Ids{0, 1, 4}));
  row.top_k = 0;
  row.top_p = 0.69f;
  EXPECT_EQ(support(row), (Ids{1, 4}));
  row.top_p = 0.75f;  // 0.4 + 0.3 + one of the two equal tokens
  EXPECT_EQ(support(row), (Ids{0, 1, 4}));
  row.top_p = 0.85f;
  EXPECT_EQ(support(row), (Ids{0, 1, 3, 4}));
  row.top_p = 1.0f;
  row.min_p = 0.2f;  // keeps probabilities from 0.2 * 0.4 = 0.08 on
  EXPECT_EQ(support(row), (Ids{0, 1, 3, 4}));
  row.min_p = 1.0f;
  EXPECT_EQ(support(row), (Ids{1}));
  row.min_p = 0.0f;
  row.top_k = 2;  // top_p applies to the tokens that top_k keeps: 0.4 / 0.7 = 0.57
  row.top_p = 0.56f;
  EXPECT_EQ(support(row), (Ids{1}));
}

// The number of draws of a statistical test. It is so large that the test expects the least
// probable token at least five times.
int NumDraws(const LibraryTraits& traits) { return traits.interpreted ? 10000 : 40000; }

// Pearson's chi-square test of draws against the softmax. The 99.9% quantile comes from a table.
TEST_P(SampleTest, DrawsFollowTheSoftmax) {
  const int num_draws = NumDraws(traits());
  const std::vector<float> z = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f, -3.0f, 1.5f, -0.5f, 0.25f, 0.75f};
  const OwnedMatrix logits = Logits(z);
  const auto chi_square = [&](bool vary_seed, float temperature) {
    std::vector<SamplingRow> rows(static_cast<size_t>(num_draws));
    for (int i = 0; i < num_draws; ++i) {
      rows[i].temperature = temperature;
      rows[i].seed = vary_seed ? static_cast<uint64_t>(i) : 12345;
      rows[i].position = vary_seed ? 17 : i;
    }
    std::vector<int> counts(z.size(), 0);
    for (int32_t token : Run(ops(), logits.view(), rows)) ++counts[static_cast<size_t>(token)];
    double total = 0;
    for (float logit : z) total += std::exp(logit / temperature);
    double sum = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      const double expected = num_draws * std::exp(z[i] / temperature) / total;
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
  };
  constexpr double kQuantile = 27.88;  // 9 degrees of freedom
  EXPECT_LT(chi_square(false, 1.0f), kQuantile);
  EXPECT_LT(chi_square(true, 1.0f), kQuantile);
  EXPECT_LT(chi_square(false, 2.0f), kQuantile);
  EXPECT_LT(chi_square(true, 0.7f), kQuantile);
}

// Draws at neighbouring positions and seeds are independent: a chi-square test of pairs.
TEST_P(SampleTest, NeighbouringDrawsAreIndependent) {
  const int num_draws = NumDraws(traits());
  const OwnedMatrix logits = Logits({0, 0, 0, 0});
  std::vector<SamplingRow> rows(static_cast<size_t>(2 * num_draws));
  for (int i = 0; i < 2 * num_draws; ++i) {
    rows[i].temperature = 1.0f;
    rows[i].seed = 7 + static_cast<uint64_t>(i % 2);
    rows[i].position = i / 2;
  }
  const std::vector<int32_t> sampled = Run(ops(), logits.view(), rows);
  for (int stride : {1, 2}) {  // 1: neighbouring seeds; 2: neighbouring positions
    std::array<int, 16> counts = {};
    for (int i = 0; i + stride < 2 * num_draws; i += 2 * stride) {
      ++counts[static_cast<size_t>(4 * sampled[i] + sampled[i + stride])];
    }
    const double expected = num_draws / stride / 16.0;
    double sum = 0;
    for (int count : counts) sum += (count - expected) * (count - expected) / expected;
    EXPECT_LT(sum, 37.70) << stride;  // 15 degrees of freedom, 99.9%
  }
}

TEST_P(SampleTest, FailsWithoutWorkspace) {
  const OwnedMatrix logits = Logits({1, 2, 3});
  const std::vector<SamplingRow> rows(1);
  std::vector<int32_t> sampled = {-7};
  OwnedStream stream(SampleWorkspace(1, 3) - 1);
  ops().sample(*stream, {logits.view(), rows.data(), 1, sampled.data()});
  EXPECT_EQ(stream->status, OpStatus::kUnsupported);
  EXPECT_EQ(sampled[0], -7);
}

}  // namespace
}  // namespace longstream
