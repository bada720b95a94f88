// A small version of the measurements in docs/length-extrapolation.md, made as `make eval` makes
// them. All demo models do well at the length at which they were trained. At greater lengths the
// dense model fails. The hybrids still do well, and so does the dense model when it is loaded with
// ReRoPE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/connection.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

using nlohmann::json;

constexpr const char* kDemo = LONGSTREAM_SOURCE_DIR "/models/demo/";
// All models but the first do well beyond 512 tokens, the length of training.
const std::vector<std::string> kModels = {"dense", "rerope", "rerope_logn", "hwfa2", "hypenet"};

class LengthExtrapolationTest : public testing::Test {
 protected:
  static std::vector<std::string> Flags() {
    const std::string dense = std::string(kDemo) + "dense";
    const std::string rerope = dense + ",backend=hwfa2,options.rerope_window=256";
    return {"--model", "dense=" + dense,
            "--model", "rerope=" + rerope,
            "--model", "rerope_logn=" + rerope + ",options.logn=extrapolate",
            "--model", std::string("hwfa2=") + kDemo + "hwfa2",
            "--model", std::string("hypenet=") + kDemo + "hypenet"};
  }

  LengthExtrapolationTest() : server_(kServerBinary, Flags()) {
    client::Connection connection(server_.address());
    for (const std::string& model : kModels) {
      connection.WaitUntilServing(model, std::chrono::seconds(60));
    }
  }

  // Accuracies in percent: [length][model, in the order of kModels].
  std::vector<std::vector<double>> Evaluate(std::vector<std::string> evaluation) {
    std::vector<std::string> arguments = {"--server", server_.address(), "--json", "eval"};
    for (const std::string& model : kModels) {
      evaluation.insert(evaluation.end(), {"-m", model});
    }
    arguments.insert(arguments.end(), evaluation.begin(), evaluation.end());
    const ClientRun run = RunClient(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const json results = json::parse(run.out);
    std::vector<std::vector<double>> percent;
    for (const json& row : results["by_length"]) {
      std::vector<double>& figures = percent.emplace_back();
      std::string line = row["length"].get<std::string>() + ":";
      for (const std::string& model : kModels) {
        figures.push_back(100 * row["models"][model]["accuracy"].get<double>());
        line += " " + std::to_string(figures.back());
      }
      RecordProperty("percent_at_" + row["length"].get<std::string>(), line);
    }
    return percent;
  }

  ServerProcess server_;
};

// Both lengths use the same 16 KiB of text. The standard error of an accuracy is below 0.4 points.
TEST_F(LengthExtrapolationTest, NextByte) {
  const auto percent = Evaluate({"text", "--lengths", "512,4096", "--max-bytes", "16384",
                                 std::string(kDemo) + "heldout.txt"});
  ASSERT_EQ(percent.size(), 2u);
  for (size_t i = 0; i < kModels.size(); ++i) {
    EXPECT_GE(percent[0][i], 65) << kModels[i];
    if (i > 0) {
      EXPECT_GE(percent[1][i], percent[0][i]) << kModels[i];
    }
  }
  EXPECT_LE(percent[1][0], percent[0][0] - 15) << "the dense model does not fail at 4096 tokens";
}

TEST_F(LengthExtrapolationTest, Passkey) {
  const auto percent = Evaluate({"passkey", "--lengths", "300,1500", "--samples", "12"});
  ASSERT_EQ(percent.size(), 2u);
  for (size_t i = 0; i < kModels.size(); ++i) {
    EXPECT_GE(percent[0][i], 80) << kModels[i];
    if (i > 0) {
      EXPECT_GE(percent[1][i], 80) << kModels[i];
    }
  }
  EXPECT_LE(percent[1][0], 30);
}

TEST_F(LengthExtrapolationTest, AssociativeRecall) {
  const auto percent =
      Evaluate({"recall", "--lengths", "300,1500", "--samples", "6", "--questions", "4"});
  ASSERT_EQ(percent.size(), 2u);
  for (size_t i = 0; i < kModels.size(); ++i) {
    EXPECT_GE(percent[0][i], 80) << kModels[i];
    if (i > 0) {
      EXPECT_GE(percent[1][i], 80) << kModels[i];
    }
  }
  EXPECT_LE(percent[1][0], 30);
}

}  // namespace
}  // namespace longstream
