// Responses in the background at two gateways: each tells how far a response is, ends it, and goes
// on with it when the other gateway is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/gateways_fixture.h"

namespace longstream {
namespace {

constexpr int kTokens = 150;  // a second and a half

class BackgroundTest : public GatewaysTest {
 protected:
  BackgroundTest() : GatewaysTest("minimal", ",options.step_delay_us=10000") {}

  // Begins a response at gateway 0. Returns its path.
  std::string Begin() {
    Json body = ResponseBody("abc");
    body["background"] = true;
    body["max_output_tokens"] = kTokens;
    body["ignore_eos"] = true;
    const Json response = Post(Port(0), kResponsesPath, body).json();
    EXPECT_THAT(response.at("status"), testing::AnyOf("queued", "in_progress"));
    return ResponsePath(response.at("id"));
  }
  void Kill(size_t gateway) {
    gateways_[gateway]->Signal(SIGKILL);
    gateways_[gateway]->Wait();
  }
  std::string StatusAt(size_t gateway, const std::string& path) const {
    const HttpReply reply = Get(Port(gateway), path);
    return reply.status == 200 ? reply.json().at("status").get<std::string>() : reply.body;
  }
  // Waits for the end of the response, whose text must be that of a fresh session.
  Json Ended(size_t gateway, const std::string& path) {
    EXPECT_TRUE(WaitUntil([&] { return StatusAt(gateway, path) == "incomplete"; }))
        << StatusAt(gateway, path);
    const Json response = Get(Port(gateway), path).json();
    client::Connection connection(Address());
    v1::GenerateRequest request = WholeTurn("", {{"user", "abc"}}, kTokens);
    request.set_session_id(connection.Open("m").session_id());
    request.mutable_stop()->set_ignore_eos(true);
    EXPECT_EQ(ResponseText(response), connection.Generate(request).text);
    return response;
  }
};

TEST_F(BackgroundTest, BothGatewaysTellHowFarItIs) {
  const std::string path = Begin();
  EXPECT_EQ(StatusAt(1, path), "in_progress");
  const HttpReply stream = Get(Port(1), path + "?stream=true");
  EXPECT_EQ(stream.status, 409) << "gateway 0 has the events";
  EXPECT_EQ(
      Post(Port(1), kResponsesPath, ResponseBody("x", path.substr(path.rfind('/') + 1))).status,
      400)
      << "it has not ended yet";
  const Json ended = Ended(0, path);
  EXPECT_TRUE(WaitUntil([&] { return StatusAt(1, path) == "incomplete"; }));
  EXPECT_EQ(Get(Port(1), path).json(), ended);
}

TEST_F(BackgroundTest, AnotherGatewayGoesOnWithIt) {
  const std::string path = Begin();
  Kill(0);
  const Json ended = Ended(1, path);
  // It has all events, from any one on.
  const std::vector<std::string> all = HttpStream(Port(1), path + "?stream=true").Rest();
  ASSERT_GT(all.size(), 5u);
  EXPECT_EQ(Json::parse(all.front()).at("type"), "response.created");
  EXPECT_EQ(Json::parse(all.back()).at("response"), ended);
  EXPECT_EQ(HttpStream(Port(1), path + "?stream=true&starting_after=3").Rest(),
            std::vector<std::string>(all.begin() + 4, all.end()));
  StartGateway(0);
  EXPECT_EQ(Get(Port(0), path).json(), ended);
  Conversation conversation = {{"user", "abc"}, {"assistant", ResponseText(ended)}};
  Respond(0, "more", ended.at("id"), &conversation);
}

TEST_F(BackgroundTest, ItGoesOnWithoutItsGatewayAndItsServer) {
  const std::string path = Begin();
  Kill(0);
  RestartServer();
  Ended(1, path);
}

// A rolling update of the gateways ends no response.
TEST_F(BackgroundTest, AGatewayThatIsStoppedLeavesIt) {
  const std::string path = Begin();
  EXPECT_EQ(gateways_[0]->Stop(), 0);
  Ended(1, path);
}

TEST_F(BackgroundTest, EachGatewayCancelsIt) {
  const std::string path = Begin();
  const HttpReply cancelled = Ask(Port(1), "POST", path + "/cancel");
  EXPECT_EQ(cancelled.status, 200) << cancelled.body;
  EXPECT_EQ(cancelled.json().at("status"), "cancelled");
  EXPECT_EQ(StatusAt(0, path), "cancelled");
  EXPECT_EQ(StatusAt(1, path), "cancelled");
}

TEST_F(BackgroundTest, ACancelledResponseOfADeadGatewayStaysCancelled) {
  const std::string path = Begin();
  Kill(0);
  EXPECT_EQ(Ask(Port(1), "POST", path + "/cancel").json().at("status"), "cancelled");
  EXPECT_EQ(StatusAt(1, path), "cancelled");
}

TEST_F(BackgroundTest, ADeletedResponseDoesNotComeBack) {
  for (const size_t deletes : {0, 1}) {
    const std::string path = Begin();
    EXPECT_EQ(Ask(Port(deletes), "DELETE", path).json().at("deleted"), true);
    // Also when the gateway that made it has noticed.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    EXPECT_TRUE(WaitUntil([&] { return Get(Port(0), path).status == 404; })) << deletes;
    while (std::chrono::steady_clock::now() < end) {
      for (const size_t gateway : {0, 1}) {
        EXPECT_EQ(Get(Port(gateway), path).status, 404) << deletes << ", " << gateway;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(Ask(Port(deletes), "DELETE", path).status, 404);
  }
}

TEST_F(BackgroundTest, ACancelledResponseIsDeletedForAll) {
  const std::string path = Begin();
  EXPECT_EQ(Ask(Port(0), "POST", path + "/cancel").json().at("status"), "cancelled");
  EXPECT_TRUE(WaitUntil([&] { return StatusAt(1, path) == "cancelled"; })) << StatusAt(1, path);
  EXPECT_EQ(Ask(Port(0), "DELETE", path).json().at("deleted"), true);
  for (const size_t gateway : {0, 1}) EXPECT_EQ(Get(Port(gateway), path).status, 404);
}

TEST_F(BackgroundTest, ACancelThatComesAfterTheAnswerKeepsIt) {
  const std::string path = Begin();
  Kill(0);
  // The turn ends without a gateway.
  client::Connection connection(Address());
  EXPECT_TRUE(WaitUntil([&] {
    const std::vector<v1::Session> sessions = connection.Sessions("m");
    const std::vector<v1::Turn> turns = connection.Turns(sessions.at(0).session_id());
    return !turns.empty() && turns.back().state() == v1::TURN_STATE_COMMITTED;
  }));
  Ask(Port(1), "POST", path + "/cancel");
  Ended(1, path);
}

}  // namespace
}  // namespace longstream
