// A real Envoy with docs/envoy.yaml in front of the server's HTTP API: clients of OpenAI's API are
// served through it, and requests that break its limits end there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/envoy/envoy_config.h"
#include "tests/e2e/http/chat_server.h"
#include "tests/processes/envoy_process.h"
#include "tests/processes/free_port.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class EnvoyHttpTest : public testing::Test {
 protected:
  EnvoyHttpTest()
      : server_(directory_.Arguments(",options.step_delay_us=5000")),
        port_(FreePort()),
        envoy_(directory_.Write("envoy.yaml",
                                EnvoyConfig({.http = port_, .server_http = server_.http()})),
               directory_.string() + "/envoy.log", port_) {}

  // The status of a request of the list of models with further fields in its header.
  int StatusWith(const Headers& fields) const { return Get(port_, "/v1/models", fields).status; }

  const ChatModelDirectory directory_;
  ChatServer server_;
  const int port_;
  const EnvoyProcess envoy_;
};

TEST_F(EnvoyHttpTest, StreamsArrivePieceByPiece) {
  const Conversation conversation = {{"user", "one"}};
  const Json body = StreamBody(conversation, 200);
  const std::string whole = TextOf(server_.Chat(ChatBody(conversation, 200)));
  std::vector<std::string> texts(8);
  std::vector<std::thread> clients;
  for (std::string& text : texts) {
    clients.emplace_back([&] { text = JoinedText(HttpStream(port_, kChatPath, body).Rest()); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(texts, std::vector<std::string>(8, whole));

  // The first piece comes long before the last one, which takes a second.
  const auto begin = std::chrono::steady_clock::now();
  HttpStream stream(port_, kChatPath, body);
  stream.Next();
  stream.Next();
  const auto first = std::chrono::steady_clock::now() - begin;
  stream.Rest();
  EXPECT_LT(first * 2, std::chrono::steady_clock::now() - begin);
}

TEST_F(EnvoyHttpTest, AConversationContinues) {
  Conversation conversation = {{"user", "one"}};
  const HttpReply first = Post(port_, kChatPath, ChatBody(conversation));
  ASSERT_EQ(first.status, 200) << first.body;
  conversation.emplace_back("assistant", TextOf(first));
  conversation.emplace_back("user", "two");
  EXPECT_EQ(SessionOf(Post(port_, kChatPath, ChatBody(conversation))), "continued");
}

TEST_F(EnvoyHttpTest, HeadersBeyondTheLimitsAreRefused) {
  EXPECT_EQ(StatusWith({}), 200);
  Headers many;
  for (int i = 0; i < 70; ++i) many["x-" + std::to_string(i)] = "x";
  EXPECT_EQ(StatusWith(many), 431);
  EXPECT_EQ(StatusWith({{"x-long", std::string(17 << 10, 'x')}}), 431);
  EXPECT_EQ(StatusWith({{"x_request_id", "x"}}), 400)
      << "a name that other programs may take for x-request-id";
  EXPECT_EQ(Get(port_, "/v1%2fmodels").status, 400) << "an escaped slash";
  EXPECT_EQ(Get(port_, "/other/../v1//models").status, 200) << "paths are made plain";
}

// Two requests in one, as programs that read lengths in different ways would split them.
TEST_F(EnvoyHttpTest, ContradictingLengthsAreRefused) {
  const TcpClient client(port_);
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string answer = client.ReceiveAll();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(answer.find("HTTP/1.1 200"), std::string::npos) << answer;
}

TEST_F(EnvoyHttpTest, AHeaderThatDoesNotEndIsCutOff) {
  const TcpClient client(port_);
  client.Send("GET /v1/models HTTP/1.1\r\nHost: x\r\n");
  EXPECT_THAT(client.ReceiveAll(), HasSubstr("408"));  // after 10 s
}

}  // namespace
}  // namespace longstream
