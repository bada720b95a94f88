// The end of a server while HTTP clients wait for answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <future>
#include <string>
#include <thread>

#include "tests/e2e/http/chat_server.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

const Conversation kConversation = {{"user", "abc"}};

class StopTest : public testing::Test {
 protected:
  const ChatModelDirectory directory_;
};

TEST_F(StopTest, AnswersThatRunEndWhole) {
  ChatServer server(directory_.Arguments(",options.step_delay_us=20000"));
  const TcpClient idle(server.http());
  HttpStream stream(server.http(), kChatPath, StreamBody(kConversation, 50));
  const std::string first = stream.Next().value();
  auto whole = std::async(std::launch::async, [&] {
    return server.Chat(ChatBody({{"user", "def"}}, 50));
  });
  ASSERT_TRUE(WaitUntil([&] { return server.Metric("longstream_requests_running") == 2; }));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(idle.ReceiveAll(), "") << "it waits for nothing";
  EXPECT_THROW(TcpClient{server.http()}, std::runtime_error) << "new clients go elsewhere";
  std::vector<std::string> events = stream.Rest();
  events.insert(events.begin(), first);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_THAT(events[events.size() - 2], HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_EQ(JoinedText(events).size(), 50u);
  const HttpReply reply = whole.get();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(TextOf(reply).size(), 50u);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().Log(), HasSubstr("\"event\":\"stopped\""));
}

// The time for the end is over before the answers are.
TEST_F(StopTest, AnswersThatTakeTooLongEndWithAnError) {
  ChatServer server(directory_.Arguments(",options.step_delay_us=20000", "grace: 0s"));
  HttpStream stream(server.http(), kChatPath, StreamBody(kConversation, 5000));
  stream.Next();
  HttpStream whole(server.http(), kChatPath, ChatBody({{"user", "def"}}, 5000));
  ASSERT_TRUE(WaitUntil([&] { return server.Metric("longstream_requests_running") == 2; }));
  const auto begin = Clock::now();
  server.process().Signal(SIGTERM);
  const std::vector<std::string> events = stream.Rest();
  EXPECT_THAT(events.back(), HasSubstr("\"error\""));
  EXPECT_EQ(whole.status(), 503);
  EXPECT_EQ(whole.headers().at("retry-after"), "1");
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_LT(Clock::now() - begin, seconds(10));
}

TEST_F(StopTest, AClientThatDoesNotReadKeepsNoServer) {
  ChatServer server(directory_.Arguments("", "grace: 0s"));
  Json body = StreamBody(kConversation, 60000);
  body["logprobs"] = true;
  body["top_logprobs"] = 20;
  HttpStream stream(server.http(), kChatPath, body);
  stream.Next();
  // The turn waits for its reader when all buffers are full.
  double tokens = -1;
  ASSERT_TRUE(WaitUntil([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double before = tokens;
    tokens = server.Metric("longstream_generated_tokens_total");
    return tokens == before;
  }));
  ASSERT_EQ(server.Metric("longstream_requests_running"), 1) << "all tokens fit into the buffers";
  const auto begin = Clock::now();
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_LT(Clock::now() - begin, seconds(10));
}

}  // namespace
}  // namespace longstream
