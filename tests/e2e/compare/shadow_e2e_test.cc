// A server that replays the turns of an alias on another demo model.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/server_process.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr uint32_t kShadowedTokens = 40;

class ShadowE2eTest : public testing::Test {
 protected:
  static std::string Config() {
    std::string models;
    for (const std::string name : {"dense", "hypenet"}) {
      models += "- {name: " + name + ", directory: " LONGSTREAM_SOURCE_DIR "/models/demo/" + name +
                ", device: cpu}\n";
    }
    return "models:\n" + models +
           "aliases:\n"
           "- {name: chat, arms: {dense: 1}, shadow: {model: hypenet, share: 1}}\n"
           "- {name: same, arms: {dense: 1}, shadow: {model: dense, share: 1}}\n";
  }

  void Generate(const std::string& model) {
    v1::GenerateRequest request;
    request.set_session_id(connection_.Open(model).session_id());
    request.mutable_input()->set_text("def read_lines(path):\n    with open(path) as f:\n");
    request.set_max_tokens(kShadowedTokens);
    request.mutable_stop()->set_ignore_eos(true);
    connection_.Generate(request);
  }
  double Value(const std::string& name, const std::string& pair) const {
    return SampleValue(Scrape(server_.metrics_port()), name, {{"pair", pair}}).value_or(0);
  }
  bool AwaitTurn(const std::string& pair) const {
    return WaitUntil([&] { return Value("longstream_shadow_turns_total", pair) == 1; });
  }

  const TemporaryDirectory files_;
  ServerProcess server_{kServerBinary, {"--config", files_.Write("server.yaml", Config())}};
  client::Connection connection_{server_.address()};
};

TEST_F(ShadowE2eTest, TheMetricsSayHowTheModelsDiffer) {
  for (const char* model : {"dense", "hypenet"}) {
    connection_.WaitUntilServing(model, std::chrono::seconds(60));
  }
  Generate("chat");
  ASSERT_TRUE(AwaitTurn("dense/hypenet"));
  EXPECT_EQ(Value("longstream_compare_tokens_total", "dense/hypenet"), kShadowedTokens);
  EXPECT_EQ(Value("longstream_compare_kl_nats_count", "dense/hypenet"), kShadowedTokens);
  EXPECT_GT(Value("longstream_compare_kl_nats_sum", "dense/hypenet"), 0);
  EXPECT_LE(Value("longstream_compare_top1_agreements_total", "dense/hypenet"), kShadowedTokens);
  Generate("same");
  ASSERT_TRUE(AwaitTurn("dense/dense"));
  EXPECT_EQ(Value("longstream_compare_kl_nats_count", "dense/dense"), kShadowedTokens);
  EXPECT_EQ(Value("longstream_compare_kl_nats_sum", "dense/dense"), 0) << "exactly";
  EXPECT_EQ(Value("longstream_compare_top1_agreements_total", "dense/dense"), kShadowedTokens);
  EXPECT_EQ(server_.Stop(), 0);
}

}  // namespace
}  // namespace longstream
