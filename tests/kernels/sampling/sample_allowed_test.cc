// Sampling with masks of allowed tokens, on every instruction set. A mask must draw what the
// reference draws, and what the same row draws if bias bans the other tokens.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/ops/sampling/sample.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A mask of exactly as many words as the op may read. Bits beyond the vocabulary are set, because
// ops must ignore them.
class Mask {
 public:
  explicit Mask(int64_t vocabulary)
      : vocabulary_(vocabulary), words_(static_cast<size_t>((vocabulary + 31) / 32), 0) {
    for (int64_t bit = vocabulary; bit < 32 * static_cast<int64_t>(words_.size()); ++bit) Set(bit);
  }
  Mask(int64_t vocabulary, const std::vector<int64_t>& allowed) : Mask(vocabulary) {
    for (const int64_t token : allowed) Set(token);
  }
  static Mask AllBut(int64_t vocabulary, const std::vector<int64_t>& others) {
    Mask mask(vocabulary);
    for (uint32_t& word : mask.words_) word = ~uint32_t{0};
    for (const int64_t token : others) mask.words_[token / 32] &= ~(uint32_t{1} << (token % 32));
    return mask;
  }

  const uint32_t* words() const { return words_.data(); }
  bool Allows(int64_t token) const { return (words_[token / 32] >> (token % 32) & 1) != 0; }
  void Set(int64_t bit) { words_[bit / 32] |= uint32_t{1} << (bit % 32); }

  // `bias` without the tokens that are not allowed, and with bans of them.
  std::vector<LogitBias> AsBans(const SamplingRow& row) const {
    std::vector<LogitBias> bans;
    for (int32_t i = 0; i < row.num_bias; ++i) {
      if (Allows(row.bias[i].token)) bans.push_back(row.bias[i]);
    }
    for (int32_t token = 0; token < vocabulary_; ++token) {
      if (!Allows(token)) bans.push_back({token, -kInfinity});
    }
    return bans;
  }

 private:
  int64_t vocabulary_;
  std::vector<uint32_t> words_;
};

class SampleAllowedTest : public OpTest {
 protected:
  static std::vector<int32_t> Run(const OpTable& table, const Matrix& logits,
                                  const std::vector<SamplingRow>& rows) {
    const auto num_rows = static_cast<int32_t>(rows.size());
    std::vector<int32_t> sampled(rows.size(), -7);
    OwnedStream stream(SampleWorkspace(num_rows, logits.cols), ExecutorOf(3));
    table.sample(*stream, {logits, rows.data(), num_rows, sampled.data()});
    EXPECT_TRUE(stream->ok());
    return sampled;
  }
  int32_t Draw(const OwnedMatrix& logits, const SamplingRow& row) const {
    return Run(ops(), logits.view(), {row}).front();
  }

  // Few tokens, about half of them, all, none, one, and all but one.
  static std::vector<Mask> Masks(int64_t vocabulary, Random& random) {
    const auto any = [&] { return random.Integer(0, vocabulary - 1); };
    Mask half(vocabulary);
    for (int64_t token = 0; token < vocabulary; ++token) {
      if (random.Integer(0, 1) == 0) half.Set(token);
    }
    return {Mask(vocabulary, {any(), any(), any(), any()}),
            half,
            Mask::AllBut(vocabulary, {}),
            Mask(vocabulary),
            Mask(vocabulary, {any()}),
            Mask(vocabulary, {vocabulary - 1}),
            Mask::AllBut(vocabulary, {any()}),
            Mask::AllBut(vocabulary, {0, vocabulary - 1})};
  }
};
LONGSTREAM_INSTANTIATE_OP_TEST(SampleAllowedTest);

// Rows with each parameter alone, and with all together.
std::vector<SamplingRow> Variants(const std::vector<TokenCount>& history,
                                  const std::vector<LogitBias>& bias) {
  std::vector<SamplingRow> rows;
  const auto add = [&](float temperature, auto&& change) {
    SamplingRow row;
    row.row = static_cast<int32_t>(rows.size() % 2);
    row.seed = 31 * rows.size();
    row.position = static_cast<int64_t>(1000 + rows.size());
    row.temperature = temperature;
    change(row);
    rows.push_back(row);
  };
  const auto penalties = [&](SamplingRow& row) {
    row.history = history.data();
    row.num_history = static_cast<int32_t>(history.size());
    row.repetition_penalty = 1.4f;
    row.presence_penalty = 0.3f;
    row.frequency_penalty = 0.2f;
  };
  const auto biased = [&](SamplingRow& row) {
    row.bias = bias.data();
    row.num_bias = static_cast<int32_t>(bias.size());
  };
  for (const float temperature : {0.0f, 1e-45f, 1e-37f, 0.7f, 2.0f}) {
    add(temperature, [](SamplingRow&) {});
    add(temperature, [](SamplingRow& row) { row.top_k = 3; });
    add(temperature, [](SamplingRow& row) { row.top_p = 0.8f; });
    add(temperature, [](SamplingRow& row) { row.min_p = 0.1f; });
    add(temperature, penalties);
    add(temperature, biased);
    add(temperature, [&](SamplingRow& row) {
      penalties(row), biased(row);
      row.top_k = 20;
      row.top_p = 0.9f;
      row.min_p = 0.02f;
    });
  }
  return rows;
}

TEST_P(SampleAllowedTest, MatchesTheReferenceAndBans) {
  Random random(21);
  for (const int64_t vocabulary : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 2049}) {
    const OwnedMatrix logits(2, vocabulary, random, 3.0f);
    std::vector<TokenCount> history;
    std::vector<LogitBias> bias;
    for (int32_t token = 0; token < vocabulary; token += 3) {
      history.push_back({token, 1 + token % 4, token % 3});
      if (token % 2 == 0) bias.push_back({token, token % 4 == 0 ? 2.5f : -kInfinity});
    }
    const std::vector<SamplingRow> variants = Variants(history, bias);
    for (const Mask& mask : Masks(vocabulary, random)) {
      std::vector<SamplingRow> masked = variants;
      std::vector<SamplingRow> banned = variants;
      std::vector<std::vector<LogitBias>> bans(variants.size());
      for (size_t i = 0; i < variants.size(); ++i) {
        masked[i].allowed = mask.words();
        bans[i] = mask.AsBans(variants[i]);
        banned[i].bias = bans[i].data();
        banned[i].num_bias = static_cast<int32_t>(bans[i].size());
      }
      const std::vector<int32_t> sampled = Run(ops(), logits.view(), masked);
      EXPECT_EQ(sampled, Run(reference(), logits.view(), masked)) << vocabulary;
      EXPECT_EQ(sampled, Run(ops(), logits.view(), banned)) << vocabulary;
      for (const int32_t token : sampled) EXPECT_TRUE(token == -1 || mask.Allows(token));
    }
  }
}

TEST_P(SampleAllowedTest, AllTokensAreAsNoMaskAndNoneLeavesNoToken) {
  Random random(22);
  for (const int64_t vocabulary : {33, 64, 3000}) {
    const OwnedMatrix logits(2, vocabulary, random, 2.0f);
    const std::vector<TokenCount> history = {{1, 2, 1}, {7, 1, 0}};
    const std::vector<LogitBias> bias = {{2, 1.5f}, {9, -kInfinity}};
    const std::vector<SamplingRow> variants = Variants(history, bias);
    const Mask all = Mask::AllBut(vocabulary, {});
    const Mask none(vocabulary);
    std::vector<SamplingRow> all_allowed = variants;
    std::vector<SamplingRow> none_allowed = variants;
    for (SamplingRow& row : all_allowed) row.allowed = all.words();
    for (SamplingRow& row : none_allowed) row.allowed = none.words();
    EXPECT_EQ(Run(ops(), logits.view(), all_allowed), Run(ops(), logits.view(), variants));
    EXPECT_THAT(Run(ops(), logits.view(), none_allowed), testing::Each(-1));
  }
}

// Rows with and without masks are drawn together. On a GPU, a thread block computes 1024 tokens of
// a row, and 64 rows are drawn at once.
TEST_P(SampleAllowedTest, OneTokenAtTheEdgesOfBlocks) {
  Random random(23);
  constexpr int64_t kVocabulary = 5000;
  const OwnedMatrix logits(2, kVocabulary, random, 4.0f);
  const int64_t edges[] = {0, 31, 32, 1023, 1024, 2047, 2048, 4095, 4096, 4991, 4999};
  std::vector<Mask> masks;
  for (const int64_t token : edges) masks.emplace_back(kVocabulary, std::vector<int64_t>{token});
  std::vector<SamplingRow> rows;
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < 70; ++i) {
    SamplingRow row;
    row.row = i % 2;
    row.seed = static_cast<uint64_t>(i);
    row.temperature = i % 3 == 0 ? 0.0f : 1.0f;
    row.top_p = i % 4 == 0 ? 0.9f : 1.0f;
    expected.push_back(Draw(logits, row));
    if (i % 5 != 0) {
      row.allowed = masks[i % masks.size()].words();
      expected.back() = static_cast<int32_t>(edges[i % masks.size()]);
    }
    rows.push_back(row);
  }
  EXPECT_EQ(Run(ops(), logits.view(), rows), expected);
}

// A NaN among the logits counts wherever it is: it shows that the step has failed. An infinite
// logit of a token that is not allowed is no obstacle.
TEST_P(SampleAllowedTest, NaNAndInfinityOfOtherTokens) {
  Random random(24);
  for (const int64_t vocabulary : {67, 3000}) {
    const int64_t last = vocabulary - 1;
    const Mask all_but_last = Mask::AllBut(vocabulary, {last});
    const std::vector<LogitBias> bias = {{3, 50.0f}};
    for (const float temperature : {0.0f, 1.0f}) {
      for (const int32_t top_k : {0, 3}) {
        for (const int32_t num_bias : {0, 1}) {
          SamplingRow row;
          row.temperature = temperature;
          row.top_k = top_k;
          row.bias = bias.data();
          row.num_bias = num_bias;
          row.allowed = all_but_last.words();
          OwnedMatrix logits(1, vocabulary, random);
          logits.set(0, last, kNaN);
          EXPECT_EQ(Draw(logits, row), -1);
          EXPECT_EQ(Run(reference(), logits.view(), {row}).front(), -1);
          logits.set(0, last, kInfinity);
          const int32_t token = Draw(logits, row);
          EXPECT_THAT(token, testing::AllOf(testing::Ge(0), testing::Lt(last)));
          EXPECT_EQ(token, Run(reference(), logits.view(), {row}).front());
        }
      }
    }
  }
}

// Penalties that overflow turn a logit into NaN (inf - inf). It counts only if the token is
// allowed.
TEST_P(SampleAllowedTest, PenaltiesOfOtherTokensDoNotCount) {
  Random random(25);
  constexpr int64_t kVocabulary = 100;
  OwnedMatrix logits(1, kVocabulary, random);
  logits.set(0, 40, 5.0f);
  const std::vector<TokenCount> history = {{40, 2, 2}};
  SamplingRow row;
  row.repetition_penalty = 1e-45f;
  row.frequency_penalty = 3e38f;
  row.history = history.data();
  row.num_history = 1;
  for (const float temperature : {0.0f, 1.0f}) {
    row.temperature = temperature;
    const Mask all_but_40 = Mask::AllBut(kVocabulary, {40});
    row.allowed = all_but_40.words();
    EXPECT_GE(Draw(logits, row), 0);
    EXPECT_EQ(Draw(logits, row), Run(reference(), logits.view(), {row}).front());
    const Mask all = Mask::AllBut(kVocabulary, {});
    row.allowed = all.words();
    EXPECT_EQ(Draw(logits, row), -1);
    EXPECT_EQ(Run(reference(), logits.view(), {row}).front(), -1);
  }
}

}  // namespace
}  // namespace longstream
