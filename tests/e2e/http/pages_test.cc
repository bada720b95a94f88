// Web pages of other origins, as browsers send their requests.
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/http/chat_server.h"

namespace longstream {
namespace {

constexpr char kPage[] = "https://chat.example.com";
constexpr char kAllowOrigin[] = "access-control-allow-origin";

class PagesTest : public testing::Test {
 protected:
  const ChatModelDirectory directory_;
  ChatServer server_{
      directory_.Arguments("", "http: {allowed_origins: ['https://chat.example.com']}")};
};

TEST_F(PagesTest, AListedPageMayAskAndRead) {
  const Headers headers = {{"Origin", kPage}};
  const HttpReply question =
      Ask(server_.http(), "OPTIONS", kChatPath, "",
          {{"Origin", kPage},
           {"Access-Control-Request-Method", "POST"},
           {"Access-Control-Request-Headers", "authorization,content-type"}});
  EXPECT_EQ(question.status, 200);
  EXPECT_EQ(question.headers.at(kAllowOrigin), kPage);
  EXPECT_EQ(question.headers.at("access-control-allow-headers"), "authorization,content-type");
  const Json body = ChatBody({{"user", "abc"}});
  const HttpReply reply = Post(server_.http(), kChatPath, body, headers);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at(kAllowOrigin), kPage);
  HttpStream stream(server_.http(), kChatPath, StreamBody({{"user", "abc"}}), headers);
  EXPECT_EQ(stream.status(), 200);
  EXPECT_EQ(stream.headers().at(kAllowOrigin), kPage);
  EXPECT_EQ(JoinedText(stream.Rest()), TextOf(reply));
  const HttpReply error = Post(server_.http(), kChatPath, Json::object(), headers);
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.headers.at(kAllowOrigin), kPage) << "the page shows the error";
}

TEST_F(PagesTest, OtherPagesMayDoNothing) {
  const std::string at = std::to_string(server_.http());
  for (const std::string& origin :
       {std::string("https://evil.example"), std::string("null"), "http://evil.example:" + at}) {
    for (const char* const method : {"POST", "OPTIONS", "GET"}) {
      const HttpReply reply = Ask(server_.http(), method, kChatPath, "{}",
                                  {{"Origin", origin},
                                   {"Host", "evil.example:" + at},
                                   {"Access-Control-Request-Method", "POST"}});
      EXPECT_EQ(reply.status, 403) << origin;
      EXPECT_EQ(reply.headers.count(kAllowOrigin), 0u);
    }
  }
  EXPECT_EQ(Ask(server_.http(), "OPTIONS", kChatPath).status, 405) << "a program";
}

}  // namespace
}  // namespace longstream
