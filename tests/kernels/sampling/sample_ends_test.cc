// Sampling with parameters at the ends of their ranges, on every instruction set.
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/ops/sampling/sample.h"
#include "tests/kernels/op_test.h"

namespace longstream {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SampleEndsTest : public OpTest {
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
};
LONGSTREAM_INSTANTIATE_OP_TEST(SampleEndsTest);

// Towards temperature 0 the drawn token becomes the most probable one, also where the logits
// divided by the temperature overflow f32. The last token is the most probable one, so a token that
// was chosen among infinite quotients would have a lower id.
TEST_P(SampleEndsTest, TinyTemperaturesDrawTheMostProbableToken) {
  const struct {
    const char* name;
    float lowest;  // the logits rise from here ...
    float step;    // ... by this, from id to id
  } cases[] = {
      {"positive", 1.0f, 0.25f},       {"negative", -5000.0f, 0.25f},
      {"around zero", -100.0f, 0.25f}, {"up to zero", -4999 * 0.25f, 0.25f},
      {"enormous", 1e35f, 1e34f},      {"enormous and negative", -3e38f, 5e34f},
  };
  const std::vector<TokenCount> history = {{7, 1, 1}};
  const std::vector<LogitBias> bias = {{9, -kInfinity}, {11, 0.5f}};
  for (const auto& logits_case : cases) {
    for (const int64_t vocabulary : {67, 5000}) {
      OwnedMatrix logits(1, vocabulary);
      for (int64_t i = 0; i < vocabulary; ++i) {
        const auto below = static_cast<float>(vocabulary - 1 - i);
        const float highest = logits_case.lowest + 4999 * logits_case.step;
        logits.set(0, i, highest - below * logits_case.step);
      }
      const auto last = static_cast<int32_t>(vocabulary - 1);
      std::vector<SamplingRow> rows;
      for (const float temperature : {1e-4f, 1e-10f, 1e-30f, 1e-37f, 1.2e-38f, 1e-40f, 1e-45f}) {
        for (int variant = 0; variant < 16; ++variant) {
          SamplingRow row;
          row.seed = static_cast<uint64_t>(variant);
          row.temperature = temperature;
          row.top_k = variant % 2 == 0 ? 0 : 20;
          row.top_p = variant % 4 < 2 ? 1.0f : 0.9f;
          row.min_p = variant % 8 < 4 ? 0.0f : 0.1f;
          if (variant >= 8) {
            row.repetition_penalty = 1.5f;
            row.history = history.data();
            row.num_history = 1;
            row.bias = bias.data();
            row.num_bias = 2;
          }
          rows.push_back(row);
        }
      }
      const std::vector<int32_t> expected(rows.size(), last);
      EXPECT_EQ(Run(ops(), logits.view(), rows), expected) << logits_case.name << " " << vocabulary;
      EXPECT_EQ(Run(reference(), logits.view(), rows), expected) << logits_case.name;
    }
  }
}

// Every parameter at both ends of its range.
TEST_P(SampleEndsTest, MatchesTheReferenceAtTheEndsOfRanges) {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  Random random(11);
  const OwnedMatrix logits(1, 900, random, 3.0f);
  std::vector<TokenCount> history;
  for (int32_t token = 0; token < 900; token += 7) history.push_back({token, 3, token % 3});
  std::vector<SamplingRow> rows;
  const auto add = [&](float temperature, auto&& change) {
    SamplingRow row;
    row.temperature = temperature;
    row.history = history.data();
    row.num_history = static_cast<int32_t>(history.size());
    change(row);
    rows.push_back(row);
  };
  for (const float temperature : {0.0f, kLeast, 1.0f, 1000.0f}) {
    for (const float p : {kLeast, 1e-30f, 0.99999994f, 1.0f}) {
      add(temperature, [p](SamplingRow& row) { row.top_p = p; });
      add(temperature, [p](SamplingRow& row) { row.min_p = p; });
    }
    for (const int32_t k : {1, 899, 900, 901, std::numeric_limits<int32_t>::max()}) {
      add(temperature, [k](SamplingRow& row) { row.top_k = k; });
    }
    for (const uint64_t seed : {uint64_t{0}, std::numeric_limits<uint64_t>::max()}) {
      add(temperature, [seed](SamplingRow& row) { row.seed = seed; });
    }
    for (const int64_t position : {int64_t{0}, std::numeric_limits<int64_t>::max()}) {
      add(temperature, [position](SamplingRow& row) { row.position = position; });
    }
    for (const float penalty : {1e-6f, 1e6f}) {
      add(temperature, [penalty](SamplingRow& row) { row.repetition_penalty = penalty; });
    }
    for (const float penalty : {-2.0f, 2.0f}) {
      add(temperature, [penalty](SamplingRow& row) { row.presence_penalty = penalty; });
      add(temperature, [penalty](SamplingRow& row) { row.frequency_penalty = penalty; });
    }
  }
  const std::vector<int32_t> sampled = Run(ops(), logits.view(), rows);
  EXPECT_THAT(sampled, testing::Each(testing::Ge(0)));
  EXPECT_EQ(sampled, Run(reference(), logits.view(), rows));
}

}  // namespace
}  // namespace longstream
