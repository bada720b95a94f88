// Parity with the golden logits: prefill in one piece, one decode step per token, and odd pieces.
// Runs on the reference ops and on every kernel library that is linked
// (tests/kernels/ops_under_test.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/golden/golden_case.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/kernels/ops_under_test.h"

namespace longstream {
namespace {

// The tolerance that docs/models.md states under parity: for logits with a standard deviation of
// about 1, and for f32 weights and caches.
constexpr float kTolerance = 1e-4f;

// The options ask for f32 weights and caches, because the golden logits follow from the stored
// weights without rounding. They make room for the case, which may be longer than the model's
// training length.
std::string ExactOptions(const GoldenCase& golden) {
  return R"("weights": "f32", "cache": "f32", "context_limit": )" +
         std::to_string(golden.tokens.size() + golden.greedy.size());
}

struct Feeding {
  const char* name;
  std::vector<size_t> lengths;  // of pieces, the last repeated; 0: a decode row; empty: one piece
};

const std::vector<Feeding> kFeedings = {
    {"pieces and decode", {33, 0, 0, 64, 0, 1, 0, 19, 128, 0}},
    {"one piece", {}},
    {"decode", {0}},
    {"odd pieces", {1, 7, 50, 13, 96, 5}},
    {"grid pieces", {64}},
};

std::vector<std::string> OpTables() {
  std::vector<std::string> names = NamesUnderTest();
  names.emplace_back("reference");
  return names;
}

// An interpreted library is slow, so it only gets the first feeding, which has rows of every kind.
std::span<const Feeding> FeedingsFor(const std::string& table) {
  const bool one = table != "reference" && TraitsUnderTest(table).interpreted;
  return std::span(kFeedings).first(one ? 1 : kFeedings.size());
}

const OpTable& OpsOf(const std::string& name) {
  return name == "reference" ? ReferenceOps() : OpsUnderTest(name);
}

Device& DeviceOf(const std::string& name) {
  return name == "reference" ? HostMemory() : DeviceUnderTest(name);
}

std::vector<float> FeedAs(Model& model, ls_sequence& sequence, const GoldenCase& golden,
                          const Feeding& feeding) {
  if (feeding.lengths.empty()) return Prefill(model, sequence, golden.tokens);
  return Feed(model, sequence, golden.tokens, feeding.lengths);
}

// The largest difference to the golden logits.
float Distance(const GoldenCase& golden, const std::vector<float>& logits, size_t vocabulary) {
  float distance = 0;
  for (size_t r = 0; r < golden.rows.size(); ++r) {
    const float* row = logits.data() + static_cast<size_t>(golden.rows[r]) * vocabulary;
    for (size_t id = 0; id < vocabulary; ++id) {
      const float difference = std::fabs(row[id] - golden.logits[r * vocabulary + id]);
      // The condition is written so that NaN counts as a difference.
      if (!(difference <= distance)) distance = difference;
    }
  }
  return distance;
}

int32_t Largest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

class GoldenTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  std::string table() const { return std::get<1>(GetParam()); }
  const OpTable& ops() const { return OpsOf(table()); }
  Device& device() const { return DeviceOf(table()); }
};

TEST_P(GoldenTest, LogitsAndGreedyTokens) {
  const GoldenCase golden = ReadGoldenCase(name());
  if (HasExperts(name()) && ops().route == nullptr) {
    ExpectError(LS_UNIMPLEMENTED, testing::HasSubstr("mixtures of experts"),
                [&] { OpenGoldenCase(name(), ExactOptions(golden), ops(), device()); });
    return;
  }
  ASSERT_GE(golden.rows.size(), 8u);
  ASSERT_GE(golden.greedy.size(), 8u);
  const std::unique_ptr<Model> model =
      OpenGoldenCase(name(), ExactOptions(golden), ops(), device());
  const size_t vocabulary = model->info().vocabulary_size;
  ASSERT_EQ(golden.logits.size(), golden.rows.size() * vocabulary);
  for (const Feeding& feeding : FeedingsFor(table())) {
    const auto sequence = CreateReserved(*model, golden.tokens.size() + golden.greedy.size());
    std::vector<float> logits = FeedAs(*model, *sequence, golden, feeding);
    ASSERT_EQ(logits.size(), golden.tokens.size() * vocabulary);
    const float distance = Distance(golden, logits, vocabulary);
    EXPECT_LE(distance, kTolerance) << feeding.name;
    std::ostringstream text;
    text << distance;
    RecordProperty("distance, " + std::string(feeding.name), text.str());

    for (size_t i = 0; i < golden.greedy.size(); ++i) {
      const int32_t token = Largest(std::span(logits).last(vocabulary));
      ASSERT_EQ(token, golden.greedy[i]) << feeding.name << ", greedy token " << i;
      logits = Decode(*model, *sequence, std::span(&token, 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         testing::Combine(testing::ValuesIn(GoldenDirectories()),
                                          testing::ValuesIn(OpTables())),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

TEST(GoldenCasesTest, ALibraryWithoutExpertsRefusesThem) {
  OpTable without[] = {ReferenceOps(), ReferenceOps(), ReferenceOps()};
  without[0].route = nullptr;
  without[1].expert_hidden = nullptr;
  without[2].expert_sum = nullptr;
  for (OpTable& ops : without) {
    ops.name = "other";
    ExpectError(LS_UNIMPLEMENTED,
                testing::EndsWith("config.json: model_type = \"mixtral\" has mixtures of experts, "
                                  "which the ops other do not serve; set device: cpu"),
                [&] { OpenGoldenCase("mixtral", "", ops); });
  }
}

// kTolerance assumes this standard deviation.
TEST(GoldenCasesTest, LogitsHaveAStandardDeviationOfAboutOne) {
  for (const std::string& name : GoldenDirectories()) {
    const std::vector<float> logits = ReadGoldenCase(name).logits;
    double sum = 0;
    double squares = 0;
    for (const float logit : logits) {
      sum += logit;
      squares += double{logit} * logit;
    }
    const auto count = static_cast<double>(logits.size());
    const double deviation = std::sqrt(squares / count - sum / count * (sum / count));
    EXPECT_GE(deviation, 0.9) << name;
    EXPECT_LE(deviation, 1.15) << name;
  }
}

// Finds cases of the README that are lost, and cases that the README does not describe.
TEST(GoldenCasesTest, AreThoseOfTheReadme) {
  EXPECT_EQ(GoldenDirectories(), GoldenCasesOfReadme());
  EXPECT_GE(GoldenDirectories().size(), 40u);
}

}  // namespace
}  // namespace longstream
