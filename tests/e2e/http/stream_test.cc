// Streams of chats: the order of events, the usage, log-probabilities, and errors before the first
// event.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/http/chat_server.h"

namespace longstream {
namespace {

const Conversation kConversation = {{"user", "abc"}};

class StreamTest : public testing::Test {
 protected:
  std::vector<std::string> Events(const Json& body) {
    HttpStream stream(server_.http(), kChatPath, body);
    EXPECT_EQ(stream.status(), 200);
    EXPECT_EQ(stream.headers().at("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_EQ(stream.headers().at("cache-control"), "no-cache");
    EXPECT_NE(stream.headers().at("x-request-id"), "");
    return stream.Rest();
  }
  // Checks what all streams of one choice have in common. Returns the chunks without the first one,
  // which has the role, and without the one with the reason of the end, and those after it.
  std::vector<Json> Pieces(const std::vector<std::string>& events, const std::string& reason) {
    EXPECT_GE(events.size(), 4u);
    EXPECT_EQ(events.back(), "[DONE]");
    std::vector<Json> pieces;
    bool ended = false;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      Json chunk = Json::parse(events[i]);
      EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
      EXPECT_EQ(chunk.at("id"), Json::parse(events[0]).at("id"));
      EXPECT_EQ(chunk.at("created"), Json::parse(events[0]).at("created"));
      EXPECT_EQ(chunk.at("model"), "m");
      if (chunk.at("choices").empty()) continue;
      const Json& choice = chunk.at("choices").at(0);
      EXPECT_FALSE(ended) << "a choice comes after its end";
      EXPECT_EQ(choice.at("index"), 0);
      EXPECT_EQ(choice.at("delta").contains("role"), i == 0);
      ended = choice.at("finish_reason") == reason;
      EXPECT_TRUE(ended || choice.at("finish_reason") == nullptr);
      EXPECT_TRUE(!ended || choice.at("delta") == Json::object());
      if (i > 0 && !ended) pieces.push_back(std::move(chunk));
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(Json::parse(events[0]).at("choices")[0].at("delta").at("role"), "assistant");
    return pieces;
  }

  const ChatModelDirectory directory_;
  ChatServer server_{
      directory_.Arguments(",options.step_delay_us=1000,options.utf8=true", "log_level: debug")};
};

TEST_F(StreamTest, ItsPiecesAreTheWholeAnswer) {
  const std::string whole = TextOf(server_.Chat(ChatBody(kConversation, 60)));
  const std::vector<std::string> events = Events(StreamBody(kConversation, 60));
  EXPECT_EQ(JoinedText(events), whole);
  EXPECT_GE(Pieces(events, "length").size(), 20u) << "it comes piece by piece";
  for (const std::string& event : events) {
    EXPECT_THAT(event, testing::Not(testing::HasSubstr("usage"))) << "nobody has asked for it";
  }
}

TEST_F(StreamTest, TheUsageComesIfAskedFor) {
  Json body = StreamBody(kConversation);
  body["stream_options"] = {{"include_usage", true}};
  const std::vector<std::string> events = Events(body);
  Pieces(events, "length");
  const HttpReply whole = server_.Chat(ChatBody(kConversation));
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    EXPECT_EQ(Json::parse(events[i]).at("usage"), nullptr);
  }
  const Json last = Json::parse(events[events.size() - 2]);
  EXPECT_EQ(last.at("choices"), Json::array());
  EXPECT_EQ(last.at("longstream").at("session"), "new");
  for (const char* const name : {"prompt_tokens", "completion_tokens", "total_tokens"}) {
    EXPECT_EQ(last.at("usage").at(name), whole.json().at("usage").at(name)) << name;
  }
  body["stream_options"] = {{"include_usage", false}};
  for (const std::string& event : Events(body)) {
    EXPECT_THAT(event, testing::Not(testing::HasSubstr("usage")));
  }
}

TEST_F(StreamTest, EachTokenHasItsLogProbability) {
  Json body = ChatBody(kConversation, 30);
  body["logprobs"] = true;
  body["top_logprobs"] = 3;
  const Json whole = server_.Chat(body).json().at("choices")[0];
  const Json& expected = whole.at("logprobs").at("content");
  ASSERT_EQ(expected.size(), 30u);
  std::string bytes;
  for (const Json& token : expected) {
    EXPECT_LE(token.at("logprob"), 0);
    EXPECT_EQ(token.at("top_logprobs").size(), 3u);
    for (const Json& byte : token.at("bytes")) bytes += static_cast<char>(byte.get<int>());
  }
  // The last character may be cut in the middle; then the text ends before it.
  EXPECT_TRUE(bytes.starts_with(whole.at("message").at("content").get<std::string>())) << bytes;
  body["stream"] = true;
  Json streamed = Json::array();
  for (const Json& piece : Pieces(Events(body), "length")) {
    const Json& log_probs = piece.at("choices")[0].at("logprobs");
    streamed.insert(streamed.end(), log_probs.at("content").begin(), log_probs.at("content").end());
  }
  EXPECT_EQ(streamed, expected);
}

// The stream begins with the turn, so an error before it has a status.
TEST_F(StreamTest, AnErrorBeforeTheTurnHasAStatus) {
  Json body = StreamBody(kConversation);
  body["model"] = "nobody";
  HttpStream unknown(server_.http(), kChatPath, body);
  EXPECT_EQ(unknown.status(), 404);
  EXPECT_THAT(unknown.Body(), testing::HasSubstr("nobody"));
  const Json long_text = StreamBody({{"user", std::string(100'000, 'x')}});
  HttpStream too_long(server_.http(), kChatPath, long_text);
  EXPECT_EQ(too_long.status(), 400);
  EXPECT_THAT(too_long.Body(), testing::HasSubstr("65536"));
}

TEST_F(StreamTest, AClientOfHttp10GetsTheStreamWithoutChunks) {
  const std::string body = StreamBody(kConversation).dump();
  std::string request = RequestText("POST", kChatPath, body);
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  const TcpClient client(server_.http());
  client.Send(request);
  const std::string answer = client.ReceiveAll();
  EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, testing::Not(testing::HasSubstr("Transfer-Encoding")));
  EXPECT_THAT(answer, testing::HasSubstr("\r\n\r\ndata: {"));
  EXPECT_THAT(answer, testing::EndsWith("\n\ndata: [DONE]\n\n"));
}

}  // namespace
}  // namespace longstream
