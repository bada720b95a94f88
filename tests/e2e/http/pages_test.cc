// The server's own web page and what it asks for; pages of other origins, as browsers send their
// requests. page_test.py uses the page in a browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/e2e/http/chat_server.h"
#include "tests/service/wait_until.h"

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

TEST_F(PagesTest, TheServerHasAPage) {
  const HttpReply page = Get(server_.http(), "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.headers.at("content-security-policy"),
              testing::StartsWith("default-src 'none'; script-src 'self';"));
  EXPECT_THAT(page.body, testing::StartsWith("<!DOCTYPE html>"));
  // All that it names is there.
  size_t files = 0;
  for (size_t at = page.body.find("\"page/"); at != std::string::npos;
       at = page.body.find("\"page/", at + 1)) {
    const std::string path = "/" + page.body.substr(at + 1, page.body.find('"', at + 1) - at - 1);
    const HttpReply file = Get(server_.http(), path);
    EXPECT_EQ(file.status, 200) << path;
    EXPECT_FALSE(file.body.empty());
    ++files;
  }
  EXPECT_GE(files, 2u);
  EXPECT_EQ(Get(server_.http(), "/page/app.js").headers.at("content-type"),
            "text/javascript; charset=utf-8");
  EXPECT_EQ(Get(server_.http(), "/page/../page_files.cc").status, 404);
  EXPECT_EQ(Get(server_.http(), "/page/").status, 404);
  EXPECT_EQ(Post(server_.http(), "/", Json::object()).status, 405);
}

TEST_F(PagesTest, ModelsAndSessionsAsGrpcDescribesThem) {
  const Json models = Get(server_.http(), "/longstream/models").json().at("models");
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0]["name"], "m");
  EXPECT_EQ(models[0]["state"], "MODEL_STATE_READY");
  EXPECT_EQ(models[0]["chat"], true);
  EXPECT_EQ(Get(server_.http(), "/longstream/sessions").json().at("sessions"), Json::array());
  const std::string first =
      server_.Chat(ChatBody({{"user", "abc"}})).json()["longstream"]["session_id"];
  server_.Chat(ChatBody({{"user", "def"}}));
  const Json page = Get(server_.http(), "/longstream/sessions?page_size=1&model=m").json();
  ASSERT_EQ(page["sessions"].size(), 1u);
  const std::string token = page["next_page_token"];
  ASSERT_FALSE(token.empty());
  const Json rest =
      Get(server_.http(), "/longstream/sessions?page_size=5&model=m&page_token=" + token).json();
  ASSERT_EQ(rest["sessions"].size(), 1u);
  EXPECT_EQ(rest["next_page_token"], "");
  EXPECT_EQ(rest["sessions"][0]["turn_running"], false);
  EXPECT_EQ(Get(server_.http(), "/longstream/sessions?page_size=many").status, 400);
  EXPECT_EQ(Get(server_.http(), "/longstream/sessions?page_size=1001").status, 400);
  EXPECT_EQ(Get(server_.http(), "/longstream/sessions?model=none").status, 404);
  const std::string path = "/longstream/sessions/" + first;
  const Json history = Get(server_.http(), path + "/history").json().at("history");
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].at("kind"), "prompt") << "the session is not in a store";
  EXPECT_EQ(history[1].at("kind"), "answer");
  EXPECT_EQ(Get(server_.http(), path).json()["model"], "m");
  EXPECT_EQ(Post(server_.http(), path, Json::object()).status, 405);
  EXPECT_EQ(Get(server_.http(), path, {{"Host", "evil.example"}}).status, 403);
  EXPECT_EQ(Get(server_.http(), path + "/history", {{"Host", "evil.example"}}).status, 403);
  EXPECT_EQ(Ask(server_.http(), "DELETE", path + "/history").status, 405);
  EXPECT_EQ(Ask(server_.http(), "DELETE", path).status, 200);
  EXPECT_EQ(Ask(server_.http(), "DELETE", path).status, 404);
  EXPECT_EQ(Get(server_.http(), path).status, 404);
  const std::string route = "/longstream/sessions/{session}";
  const std::map<std::string, std::string> labels = {{"route", route}, {"code", "404"}};
  // Metrics follow the answers.
  EXPECT_TRUE(
      WaitUntil([&] { return server_.Metric("longstream_http_requests_total", labels) == 2; }));
  EXPECT_EQ(Get(server_.http(), "/longstream/sessions").json().at("sessions").size(), 1u);
  EXPECT_TRUE(WaitUntil([&] { return server_.PlainMetric("longstream_http_sessions") == 1; }));
}

TEST(NoPageTest, AServerWithoutThePage) {
  const ChatModelDirectory directory;
  const ChatServer server(directory.Arguments("", "http: {page: false}"));
  EXPECT_EQ(Get(server.http(), "/").status, 404);
  EXPECT_EQ(Get(server.http(), "/page/app.js").status, 404);
}

}  // namespace
}  // namespace longstream
