// The signals that end the server, and a signal that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

using testing::HasSubstr;

class ServerStopTest : public testing::Test {
 protected:
  // Starts a turn of 50 tokens, which takes at least a second, and calls `meanwhile` after the
  // first of them. Returns how many arrive.
  template <typename Function>
  static int TokensOfTurn(const ServerProcess& server, const Function& meanwhile) {
    client::Connection connection(server.address());
    connection.WaitUntilServing("m", std::chrono::seconds(30));
    v1::GenerateRequest request;
    request.set_session_id(connection.Open("m").session_id());
    request.mutable_input()->set_text("abc");
    request.set_max_tokens(50);
    bool called = false;
    const client::Generation generation =
        connection.Generate(request, [&](const v1::GenerateResponse& response) {
          if (response.has_delta() && !called) {
            called = true;
            meanwhile();
          }
          return true;
        });
    return generation.tokens();
  }

  const MinimalModelDirectory minimal_;
};

TEST_F(ServerStopTest, EachEndingSignalLetsARunningTurnFinish) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    ServerProcess server(kServerBinary, {"--model", minimal_.Flag(",options.step_delay_us=20000")});
    EXPECT_EQ(TokensOfTurn(server, [&] { server.Signal(signal); }), 50) << signal;
    EXPECT_EQ(server.Wait(), 0) << signal;
    EXPECT_THAT(server.Log(),
                HasSubstr("\"event\":\"draining\",\"signal\":\"" + std::to_string(signal) + "\""));
    EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"stopped\""));
  }
}

// nohup starts programs so that they ignore SIGHUP.
TEST_F(ServerStopTest, AServerThatIgnoresSighupGoesOn) {
  ServerProcess server("/usr/bin/env", {"--ignore-signal=HUP", kServerBinary, "--model",
                                        minimal_.Flag(",options.step_delay_us=20000")});
  EXPECT_EQ(TokensOfTurn(server, [&] { server.Signal(SIGHUP); }), 50);
  EXPECT_TRUE(server.running());
  EXPECT_EQ(server.Stop(), 0);
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"draining\",\"signal\":\"15\""));
}

}  // namespace
}  // namespace longstream
