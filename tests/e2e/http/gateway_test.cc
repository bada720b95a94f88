// The program longstream-gateway before a server: turns that outlive the server, and the end of the
// gateway.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"
#include "tests/processes/free_port.h"
#include "tests/processes/server_process.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};
constexpr int kTokens = 300;

class GatewayTest : public testing::Test {
 protected:
  // A server that listens on port_, whatever ServerProcess adds to its arguments.
  void StartServer() {
    const std::string command = "exec " + std::string(kServerBinary) + " --listen " + Address() +
                                " --metrics-listen '' --store " + store_ + " --model " +
                                directory_.Flag(",options.step_delay_us=5000");
    server_ = std::make_unique<ServerProcess>("/bin/bash", std::vector<std::string>{"-c", command});
    client::Connection(Address()).WaitUntilServing("m", kPatience);
  }
  void KillServer() {
    server_->Signal(SIGKILL);
    server_->Wait();
  }
  void StartGateway(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--server", Address()});
    gateway_ = std::make_unique<ServerProcess>(kGatewayBinary, more);
  }
  std::string Address() const { return "127.0.0.1:" + std::to_string(port_); }
  HttpReply Chat(const Json& body) const { return Post(gateway_->port(), kChatPath, body); }
  std::string Fresh(const Conversation& conversation, int max_tokens) const {
    client::Connection connection(Address());
    return FreshAnswer(connection, conversation, max_tokens);
  }

  const ChatModelDirectory directory_;
  const TemporaryDirectory files_;
  const std::string store_ = files_.string() + "/store";
  const int port_ = FreePort();
  std::unique_ptr<ServerProcess> server_, gateway_;
};

// The events of a stream, in which each token comes once, with its log-probability.
void ExpectWholeStream(const std::vector<std::string>& events, const std::string& text) {
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(JoinedText(events), text);
  size_t tokens = 0, roles = 0, ends = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = Json::parse(events[i]);
    ASSERT_TRUE(chunk.contains("choices")) << events[i];
    if (chunk.at("choices").empty()) continue;
    const Json& choice = chunk.at("choices")[0];
    roles += choice.at("delta").contains("role") ? 1 : 0;
    ends += choice.at("finish_reason").is_null() ? 0 : 1;
    if (!choice.at("logprobs").is_null()) tokens += choice.at("logprobs").at("content").size();
  }
  EXPECT_EQ(tokens, static_cast<size_t>(kTokens));
  EXPECT_EQ(roles, 1u);
  EXPECT_EQ(ends, 1u);
}

TEST_F(GatewayTest, AnAnswerOutlivesTheServer) {
  StartServer();
  StartGateway({"--durable"});
  Conversation conversation = {{"user", "abc"}};
  // The stream is the second turn of a conversation, whose first one is in the store.
  const HttpReply first = Chat(ChatBody(conversation));
  ASSERT_EQ(first.status, 200) << first.body;
  conversation.emplace_back("assistant", TextOf(first));
  conversation.emplace_back("user", "def");
  const std::string expected = Fresh(conversation, kTokens);
  Json body = StreamBody(conversation, kTokens);
  body["logprobs"] = true;
  body["stream_options"] = {{"include_usage", true}};
  HttpStream stream(gateway_->port(), kChatPath, body);
  std::vector<std::string> events;
  for (int i = 0; i < 20; ++i) events.push_back(stream.Next().value());
  KillServer();
  StartServer();
  for (const std::string& event : stream.Rest()) events.push_back(event);
  ExpectWholeStream(events, expected);
  const Json usage = Json::parse(events[events.size() - 2]);
  EXPECT_EQ(usage.at("longstream").at("session"), "continued");
  EXPECT_EQ(usage.at("usage").at("completion_tokens"), kTokens);

  // The conversation goes on with the same session.
  conversation.emplace_back("assistant", expected);
  conversation.emplace_back("user", "ghi");
  const HttpReply next = Chat(ChatBody(conversation));
  EXPECT_EQ(SessionOf(next), "continued");
  EXPECT_EQ(TextOf(next), Fresh(conversation, 12));
  EXPECT_EQ(gateway_->Stop(), 0);
  EXPECT_EQ(server_->Stop(), 0);
}

// The server is killed while a client waits for a whole answer, and between two requests.
TEST_F(GatewayTest, AWholeAnswerOutlivesTheServerToo) {
  StartServer();
  StartGateway({"--durable"});
  Conversation conversation = {{"user", "abc"}};
  const std::string expected = Fresh(conversation, kTokens);
  HttpStream whole(gateway_->port(), kChatPath, ChatBody(conversation, kTokens));
  client::Connection connection(Address());
  ASSERT_TRUE(WaitUntil([&] { return connection.Sessions("m").size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  KillServer();
  StartServer();
  EXPECT_EQ(whole.status(), 200);
  EXPECT_EQ(Json::parse(whole.Body()).at("choices")[0].at("message").at("content"), expected);
  conversation.emplace_back("assistant", expected);
  conversation.emplace_back("user", "def");
  KillServer();
  StartServer();
  // A gateway that has not noticed yet may lose the connection with this request.
  HttpReply next;
  ASSERT_TRUE(WaitUntil([&] { return (next = Chat(ChatBody(conversation))).status == 200; }));
  EXPECT_EQ(SessionOf(next), "continued");
  EXPECT_EQ(TextOf(next), Fresh(conversation, 12));
}

// Without --durable the session is gone with the server, and the conversation starts over.
TEST_F(GatewayTest, SessionsInMemoryAreGoneWithTheServer) {
  StartServer();
  StartGateway();
  Conversation conversation = {{"user", "abc"}};
  conversation.emplace_back("assistant", TextOf(Chat(ChatBody(conversation))));
  conversation.emplace_back("user", "def");
  KillServer();
  StartServer();
  HttpReply next;
  ASSERT_TRUE(WaitUntil([&] { return (next = Chat(ChatBody(conversation))).status == 200; }));
  EXPECT_EQ(SessionOf(next), "new");
  EXPECT_EQ(TextOf(next), Fresh(conversation, 12));
}

TEST_F(GatewayTest, WithoutAServerItAnswersThatItHasNone) {
  StartGateway();
  const HttpReply replies[] = {
      Chat(ChatBody({{"user", "abc"}})), Get(gateway_->port(), "/health"),
      Get(gateway_->port(), "/v1/models"),
      Post(gateway_->port(), kCompletionsPath, {{"model", "m"}, {"prompt", "a"}})};
  for (const HttpReply& reply : replies) {
    EXPECT_EQ(reply.status, 503) << reply.body;
    EXPECT_EQ(reply.headers.at("retry-after"), "1");
    EXPECT_EQ(reply.json().at("error").at("type"), "server_error");
  }
  StartServer();
  ASSERT_TRUE(WaitUntil([&] { return Get(gateway_->port(), "/health").status == 200; }));
  EXPECT_EQ(Chat(ChatBody({{"user", "abc"}})).status, 200);
  EXPECT_EQ(gateway_->Stop(), 0);
}

TEST_F(GatewayTest, ItEndsWhenItsAnswersHaveEnded) {
  StartServer();
  StartGateway();
  HttpStream stream(gateway_->port(), kChatPath, StreamBody({{"user", "abc"}}, 100));
  stream.Next();
  gateway_->Signal(SIGTERM);
  const std::vector<std::string> events = stream.Rest();
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(gateway_->Wait(), 0);
  EXPECT_THAT(gateway_->Log(), HasSubstr("\"event\":\"stopped\""));
  client::Connection connection(Address());
  EXPECT_TRUE(connection.Sessions("m").empty()) << "it closes its sessions";

  // Without time, it cancels the turn.
  StartGateway({"--grace", "0"});
  HttpStream cut(gateway_->port(), kChatPath, StreamBody({{"user", "abc"}}, 20000));
  cut.Next();
  gateway_->Signal(SIGTERM);
  EXPECT_EQ(gateway_->Wait(), 0);
  EXPECT_TRUE(WaitUntil([&] { return connection.Sessions("m").empty(); }));
  EXPECT_EQ(server_->Stop(), 0);
}

TEST_F(GatewayTest, WrongFlagsAreErrors) {
  const ServerRun address = RunServer(kGatewayBinary, {"--listen", "nowhere"});
  EXPECT_EQ(address.exit_code, 1);
  EXPECT_THAT(address.log, HasSubstr("\"event\":\"start_failed\""));
  EXPECT_NE(RunServer(kGatewayBinary, {"--idle-timeout", "0"}).exit_code, 0);
  const ServerRun authority =
      RunServer(kGatewayBinary, {"--listen", "127.0.0.1:0", "--ca", "/nowhere"});
  EXPECT_EQ(authority.exit_code, 1);
  EXPECT_THAT(authority.log, HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace longstream
