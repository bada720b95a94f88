// Text of HTTP clients, and their credentials, are in no log and no metric, however a request ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/http/chat_server.h"
#include "tests/e2e/scrape.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

constexpr char kCanary[] = "CANARY-7f3a91";
const Conversation kSecretConversation = {{"user", std::string("tell me ") + kCanary}};

class HttpNoTextTest : public testing::Test {
 protected:
  int Status(const std::string& path, const Json& body, const Headers& headers = {}) const {
    return Post(server_.http(), path, body, headers).status;
  }
  void LeaveInTheMiddle() const {
    HttpStream stream(server_.http(), kChatPath, StreamBody(kSecretConversation, 10000));
    stream.Next();
    stream.Next();
  }

  const ChatModelDirectory directory_;
  ChatServer server_{directory_.Arguments(",options.step_delay_us=1000", "log_level: debug")};
};

TEST_F(HttpNoTextTest, ItIsInTheAnswerOnly) {
  Conversation conversation = kSecretConversation;
  const HttpReply reply = server_.Chat(ChatBody(conversation));
  const std::string answer = TextOf(reply);
  conversation.emplace_back("assistant", answer);
  conversation.emplace_back("user", kCanary);
  EXPECT_EQ(SessionOf(server_.Chat(ChatBody(conversation))), "continued");
  HttpStream(server_.http(), kChatPath, StreamBody(conversation)).Rest();
  const Json completion = {{"model", "m"}, {"prompt", {kCanary, kCanary}}, {"stop", kCanary}};
  EXPECT_EQ(Status(kCompletionsPath, completion), 200);
  const Json response = {{"model", "m"}, {"input", kCanary}, {"max_output_tokens", 16}};
  EXPECT_EQ(Status("/v1/responses", response), 200);
  const Json messages = {
      {"model", "m"}, {"max_tokens", 5}, {"messages", {{{"role", "user"}, {"content", kCanary}}}}};
  EXPECT_EQ(Status("/v1/messages", messages), 200);
  EXPECT_EQ(Status("/v1/messages/count_tokens", messages), 200);
  EXPECT_EQ(Status("/tokenize", {{"model", "m"}, {"prompt", kCanary}}), 200);
  EXPECT_EQ(Status("/tokenize", {{"model", kCanary}, {"prompt", kCanary}}), 404);

  // Requests that fail may repeat the text to their own client.
  Json body = ChatBody(kSecretConversation);
  body[kCanary] = kCanary;
  EXPECT_EQ(Status(kChatPath, body), 400);
  body = ChatBody(kSecretConversation);
  body["temperature"] = kCanary;
  EXPECT_EQ(Status(kChatPath, body), 400);
  body = ChatBody({{kCanary + std::string(" x"), kCanary}});
  EXPECT_EQ(Status(kChatPath, body), 400);
  body = ChatBody(kSecretConversation);
  body["model"] = kCanary;
  EXPECT_EQ(Status(kChatPath, body), 404);
  EXPECT_EQ(Status(kChatPath, ChatBody({{"user", kCanary + std::string(100'000, 'x')}})), 400);
  EXPECT_EQ(Ask(server_.http(), "POST", kChatPath, std::string("{\"") + kCanary).status, 400);
  EXPECT_EQ(Get(server_.http(), std::string("/") + kCanary).status, 404);
  EXPECT_EQ(Get(server_.http(), std::string("/v1/models/") + kCanary).status, 404);
  EXPECT_EQ(Get(server_.http(), std::string("/v1/responses/") + kCanary).status, 404);
  EXPECT_EQ(Get(server_.http(), "/v1/models", {{"Authorization", kCanary}}).status, 200);
  EXPECT_EQ(
      Get(server_.http(), "/v1/models", {{"Authorization", kCanary + std::string("\xff")}}).status,
      401);
  LeaveInTheMiddle();
  ASSERT_TRUE(WaitUntil([&] { return server_.Metric("longstream_requests_running") == 0; }));

  const std::string metrics = Scrape(server_.process().metrics_port());
  EXPECT_THAT(metrics, testing::HasSubstr("longstream_http_requests_total{"));
  EXPECT_EQ(server_.process().Stop(), 0);
  const std::string log = server_.process().Log();
  EXPECT_THAT(log, testing::HasSubstr("\"event\":\"call_failed\"")) << "failed calls are logged";
  for (const std::string& text : {std::string(kCanary), answer}) {
    EXPECT_EQ(metrics.find(text), std::string::npos) << metrics;
    EXPECT_EQ(log.find(text), std::string::npos) << log;
  }
}

}  // namespace
}  // namespace longstream
