#include "gateway/http/problem.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace longstream::gateway {
namespace {

TEST(ProblemTest, TheFormOfOpenAisErrors) {
  EXPECT_EQ(ProblemJson(400, "wrong", "seed", "bad_seed"),
            R"({"error":{"message":"wrong","type":"invalid_request_error","param":"seed",)"
            R"("code":"bad_seed"}})");
  EXPECT_EQ(ProblemJson(500, "gone"),
            R"({"error":{"message":"gone","type":"server_error","param":null,"code":null}})");
}

TEST(ProblemTest, Types) {
  const auto type = [](int status) {
    return nlohmann::json::parse(ProblemJson(status, ""))["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type(401), "authentication_error");
  EXPECT_EQ(type(403), "permission_error");
  EXPECT_EQ(type(404), "not_found_error");
  EXPECT_EQ(type(413), "invalid_request_error");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(503), "server_error");
}

TEST(ProblemTest, Answers) {
  const HttpAnswer answer = ProblemAnswer(401, "who are you?");
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.content_type, "application/json");
  ASSERT_EQ(answer.headers.size(), 1u);
  EXPECT_EQ(answer.headers[0].first, "WWW-Authenticate");
  EXPECT_TRUE(ProblemAnswer(400, "").headers.empty());
}

TEST(ProblemTest, TextThatIsNoUtf8) {
  const nlohmann::json parsed = nlohmann::json::parse(ProblemJson(400, "a\xff\"\x01", "\xc3"));
  EXPECT_EQ(parsed["error"]["message"], "a\xef\xbf\xbd\"\x01");
  EXPECT_EQ(parsed["error"]["param"], "\xef\xbf\xbd");
}

}  // namespace
}  // namespace longstream::gateway
