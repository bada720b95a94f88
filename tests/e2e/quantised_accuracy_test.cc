// How much quantised weights and int8 pages may change perplexity. Each demo model scores held-out
// text through the server, and the result is compared with the same model in bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

constexpr size_t kWindow = 512;  // the window length of training
constexpr size_t kTextBytes = 32 * kWindow;

// The parameter is a demo model. The server loads it once for each type of weights, and once more
// with bf16 weights and with keys and values in int8.
class QuantisedAccuracyTest : public testing::TestWithParam<std::string> {
 protected:
  QuantisedAccuracyTest() : server_(kServerBinary, Models()), connection_(server_.address()) {
    std::ifstream file(LONGSTREAM_SOURCE_DIR "/models/demo/heldout.txt", std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(file), {});
    text_.resize(std::min(text_.size(), kTextBytes));
  }

  static std::vector<std::string> Models() {
    std::vector<std::string> arguments;
    const auto add = [&](const std::string& name, const std::string& options) {
      arguments.emplace_back("--model");
      arguments.push_back(name + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" + GetParam() + options);
    };
    for (const std::string weights : {"bf16", "int8", "int4"}) {
      add(weights, ",options.weights=" + weights);
    }
    add("pages", ",options.weights=bf16,options.cache=int8");
    return arguments;
  }

  // Returns the perplexity over all windows of the text. Each window is scored from an empty
  // history. A token is one byte.
  double Perplexity(const std::string& model) {
    connection_.WaitUntilServing(model, std::chrono::seconds(60));
    uint64_t tokens = 0;
    double log_prob = 0;
    for (size_t begin = 0; begin + kWindow <= text_.size(); begin += kWindow) {
      v1::ScoreRequest request;
      request.set_model(model);
      request.mutable_input()->set_text(text_.substr(begin, kWindow));
      const v1::ScoreSummary summary = connection_.Score(request);
      tokens += summary.tokens();
      log_prob += summary.sum_log_prob();
    }
    EXPECT_EQ(tokens, kTextBytes / kWindow * (kWindow - 1));
    return std::exp(-log_prob / static_cast<double>(tokens));
  }

  ServerProcess server_;
  client::Connection connection_;
  std::string text_;
};

TEST_P(QuantisedAccuracyTest, PerplexityIsNearThatOfBF16) {
  const double bf16 = Perplexity("bf16");
  const double int8 = Perplexity("int8");
  const double int4 = Perplexity("int4");
  const double pages = Perplexity("pages");
  RecordProperty("bf16", std::to_string(bf16));
  RecordProperty("int8_over_bf16", std::to_string(int8 / bf16));
  RecordProperty("int4_over_bf16", std::to_string(int4 / bf16));
  RecordProperty("int8_pages_over_bf16", std::to_string(pages / bf16));
  EXPECT_NEAR(int8 / bf16, 1.0, 0.005);
  EXPECT_NEAR(int4 / bf16, 1.0, 0.03);
  EXPECT_NEAR(pages / bf16, 1.0, 0.005);
  EXPECT_NE(int8, bf16);
  EXPECT_NE(pages, bf16);
  EXPECT_NE(int4, int8);
}

INSTANTIATE_TEST_SUITE_P(Demo, QuantisedAccuracyTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace longstream
