// Turns with a twin, on the demo models.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

constexpr char kPrompt[] = "def read_lines(path):\n    with open(path) as f:\n";
constexpr uint32_t kTwinnedTokens = 80;

std::string Model(const std::string& name) {
  return name + "=" LONGSTREAM_SOURCE_DIR "/models/demo/" + name + ",device=cpu";
}

class TwinE2eTest : public testing::Test {
 protected:
  TwinE2eTest()
      : server_(kServerBinary, {"--model", Model("dense"), "--model", Model("hypenet")}),
        connection_(server_.address()) {
    for (const char* model : {"dense", "hypenet"}) {
      connection_.WaitUntilServing(model, std::chrono::seconds(60));
    }
  }

  static v1::Sampling Sampling() {
    v1::Sampling sampling;
    sampling.set_temperature(0.7f);
    sampling.set_seed(3);
    return sampling;
  }

  client::Generation Run(const std::string& model, const std::string& twin) {
    v1::GenerateRequest request;
    request.set_session_id(connection_.Open(model).session_id());
    request.mutable_input()->set_text(kPrompt);
    request.set_max_tokens(kTwinnedTokens);
    *request.mutable_sampling() = Sampling();
    request.mutable_stop()->set_ignore_eos(true);
    request.set_twin_model(twin);
    const client::Generation generation = connection_.Generate(request);
    connection_.Close(request.session_id());
    if (twin.empty()) return generation;
    EXPECT_EQ(generation.finish.twin().code(), 0) << generation.finish.twin().error();
    EXPECT_EQ(generation.twin_rows.size(), kTwinnedTokens);
    return generation;
  }

  // Rows of dense and hypenet. `forced`: the tokens of both; empty: each draws its own.
  std::vector<v1::CompareRow> Compare(const std::vector<int32_t>& forced) {
    v1::CompareRequest request;
    request.add_arms()->set_model("dense");
    request.add_arms()->set_model("hypenet");
    request.mutable_input()->set_text(kPrompt);
    request.set_max_tokens(kTwinnedTokens);
    *request.mutable_sampling() = Sampling();
    request.mutable_stop()->set_ignore_eos(true);
    for (const int32_t id : forced) request.mutable_forced()->mutable_tokens()->add_ids(id);
    std::vector<v1::CompareRow> rows;
    connection_.Compare(request, [&](const v1::CompareResponse& response) {
      for (const v1::CompareRow& row : response.rows().rows()) rows.push_back(row);
    });
    return rows;
  }

  ServerProcess server_;
  client::Connection connection_;
};

// Both read token by token, so they agree to the bit.
TEST_F(TwinE2eTest, AModelIsItsOwnTwin) {
  for (const char* model : {"dense", "hypenet"}) {
    const client::Generation turn = Run(model, model);
    EXPECT_EQ(turn.token_ids, Run(model, "").token_ids);
    for (const v1::TwinRow& row : turn.twin_rows) {
      EXPECT_EQ(row.log_prob(), row.twin_log_prob());
      EXPECT_EQ(row.rank(), row.twin_rank());
      EXPECT_TRUE(row.has_kl());
      EXPECT_EQ(row.kl(), 0.0);
      EXPECT_EQ(row.delta_p(), 0.0);
    }
  }
}

TEST_F(TwinE2eTest, FiguresAreThoseOfCompare) {
  const client::Generation turn = Run("dense", "hypenet");
  EXPECT_EQ(turn.token_ids, Run("dense", "").token_ids);
  // Up to the first other token, free-running arms read the same tokens one by one: equal to the
  // bit.
  size_t equal = 0;
  for (const v1::CompareRow& row : Compare({})) {
    if (row.pairs().empty()) break;
    const v1::TwinRow& twin = turn.twin_rows[equal++];
    EXPECT_EQ(twin.token_id(), row.tokens(0).token_id());
    EXPECT_EQ(twin.log_prob(), row.tokens(0).log_prob());
    EXPECT_EQ(twin.rank(), row.tokens(0).rank());
    EXPECT_EQ(twin.twin_best_token(), row.tokens(1).best_token());
    EXPECT_EQ(twin.kl(), row.pairs(0).kl());
    EXPECT_EQ(twin.same_best(), row.pairs(0).same_best());
  }
  EXPECT_GT(equal, 1u);
  // Forced arms read all tokens as a prompt: equal to the rounding of bf16.
  const std::vector<v1::CompareRow> forced = Compare(turn.token_ids);
  ASSERT_EQ(forced.size(), kTwinnedTokens);
  double sum_kl = 0;
  double sum_forced_kl = 0;
  for (size_t i = 0; i < forced.size(); ++i) {
    const v1::TwinRow& twin = turn.twin_rows[i];
    EXPECT_NEAR(twin.log_prob(), forced[i].tokens(0).log_prob(), 0.03);
    EXPECT_NEAR(twin.twin_log_prob(), forced[i].tokens(1).log_prob(), 0.03);
    EXPECT_NEAR(twin.kl(), forced[i].pairs(0).kl(), 0.03);
    sum_kl += twin.kl();
    sum_forced_kl += forced[i].pairs(0).kl();
  }
  EXPECT_NEAR(sum_kl, sum_forced_kl, 0.01 * sum_kl);
  EXPECT_GT(sum_kl, 0.01) << "the models are too alike for a test";
  EXPECT_EQ(turn.finish.twin().sum_kl(), sum_kl);
}

}  // namespace
}  // namespace longstream
