// What the demo models are there to show: all predict text of the trained length, and past it the
// dense one fails while the hybrids do not. Scored through the server, on held-out text.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "client/connection.h"
#include "tests/e2e/server_process.h"

namespace longstream {
namespace {

constexpr size_t kTrained = 512;  // the windows of training
constexpr size_t kLong = 4096;
// The same text at both lengths: the standard error of an accuracy is below 0.4 points.
constexpr size_t kTextBytes = 4 * kLong;

// Parametrised by the demo model.
class DemoAccuracyTest : public testing::TestWithParam<std::string> {
 protected:
  DemoAccuracyTest()
      : server_(LONGSTREAM_BINARY_DIR "/bin/longstream-server",
                {"--model", GetParam() + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" + GetParam()}),
        connection_(server_.address()) {
    connection_.WaitUntilServing(GetParam(), std::chrono::seconds(60));
    std::ifstream file(LONGSTREAM_SOURCE_DIR "/models/demo/heldout.txt", std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(file), {});
    text_.resize(std::min(text_.size(), kTextBytes));
  }

  // Percent of the tokens of windows of `length` that the model holds most probable, each window
  // from an empty history. A byte is a token.
  double Accuracy(size_t length) {
    uint64_t tokens = 0;
    uint64_t top1 = 0;
    for (size_t begin = 0; begin + length <= text_.size(); begin += length) {
      v1::ScoreRequest request;
      request.set_model(GetParam());
      request.mutable_input()->set_text(text_.substr(begin, length));
      const v1::ScoreSummary summary = connection_.Score(request);
      EXPECT_EQ(summary.tokens(), length - 1);
      tokens += summary.tokens();
      top1 += summary.top1_tokens();
    }
    EXPECT_EQ(tokens, kTextBytes / length * (length - 1));
    return 100 * static_cast<double>(top1) / static_cast<double>(tokens);
  }

  ServerProcess server_;
  client::Connection connection_;
  std::string text_;
};

TEST_P(DemoAccuracyTest, HoldsPastTheTrainedLengthButForDense) {
  const double trained = Accuracy(kTrained);
  const double past = Accuracy(kLong);
  RecordProperty("percent_at_512", std::to_string(trained));
  RecordProperty("percent_at_4096", std::to_string(past));
  EXPECT_GE(trained, 55);
  if (GetParam() == "dense") {
    EXPECT_LE(past, trained - 5) << "nothing is left for the hybrids to mend";
  } else {
    EXPECT_GE(past, trained - 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Demo, DemoAccuracyTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace longstream
