#include "gateway/http/page_origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace longstream::gateway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

HttpRequest Request(const std::string& origin, const std::string& host, HttpHeaders more = {}) {
  HttpRequest request;
  request.method = "POST";
  request.headers = std::move(more);
  request.headers.emplace_back("host", host);
  if (!origin.empty()) request.headers.emplace_back("origin", origin);
  return request;
}

bool Lets(const PageOrigins& origins, const std::string& origin, const std::string& host) {
  return !origins.Refusal(Request(origin, host)).has_value();
}

TEST(PageOriginsTest, ProgramsAreLetIn) {
  const PageOrigins origins({}, "127.0.0.1:8080");
  EXPECT_TRUE(Lets(origins, "", "anything"));
  EXPECT_THAT(origins.HeadersFor(Request("", "anything")), IsEmpty());
}

TEST(PageOriginsTest, ThePagesOfTheServerAreLetIn) {
  const PageOrigins origins({}, "0.0.0.0:8080");
  EXPECT_TRUE(Lets(origins, "http://models.example.com:8080", "models.example.com:8080"));
  EXPECT_TRUE(Lets(origins, "https://models.example.com", "models.example.com"));
  EXPECT_FALSE(Lets(origins, "http://models.example.com:8081", "models.example.com:8080"));
  EXPECT_FALSE(Lets(origins, "http://models.example.com", "models.example.com:8080"));
  EXPECT_FALSE(Lets(origins, "http://evil.example", "models.example.com"));
  EXPECT_FALSE(Lets(origins, "null", "null")) << "the page of a file";
  EXPECT_FALSE(Lets(origins, "://", ""));
  EXPECT_THAT(*origins.Refusal(Request("http://evil.example", "models.example.com")),
              HasSubstr("http://evil.example"));
}

// The owner of a name lets it point to this machine, after the browser has read the page.
TEST(PageOriginsTest, ANameThatPointsToThisMachineIsNotItsOwn) {
  const PageOrigins origins({}, "127.0.0.1:8080");
  EXPECT_FALSE(Lets(origins, "http://evil.example:8080", "evil.example:8080"));
  EXPECT_FALSE(Lets(origins, "http://127.0.0.1.evil.example", "127.0.0.1.evil.example"));
  for (const std::string host : {"localhost:8080", "localhost", "127.0.0.1:8080", "[::1]:8080",
                                 "[::1]", "127.0.0.1", "10.0.0.7:8080", "[fe80::1]"}) {
    EXPECT_TRUE(Lets(origins, "http://" + host, host)) << host;
  }
  const PageOrigins listed({"http://models.example.com:8080"}, "127.0.0.1:8080");
  EXPECT_TRUE(Lets(listed, "http://models.example.com:8080", "models.example.com:8080"));
}

// A page of that name reads without an origin what it takes for its own.
TEST(PageOriginsTest, SessionsAreShownUnderNoOtherName) {
  const auto reads = [](const PageOrigins& origins, const char* path, const char* host) {
    HttpRequest request = Request("", host);
    request.method = "GET";
    request.path = path;
    return !origins.Refusal(request).has_value();
  };
  const PageOrigins origins({}, "127.0.0.1:8080");
  for (const char* const path : {"/longstream/sessions", "/longstream/models", "/v1/responses/r"}) {
    EXPECT_FALSE(reads(origins, path, "evil.example:8080")) << path;
    EXPECT_TRUE(reads(origins, path, "localhost:8080")) << path;
    EXPECT_TRUE(reads(origins, path, "")) << path;
    EXPECT_TRUE(reads(PageOrigins({"*"}, "127.0.0.1:8080"), path, "models"));
    EXPECT_TRUE(reads(PageOrigins({"https://models"}, "127.0.0.1:8080"), path, "models"));
    EXPECT_TRUE(reads(PageOrigins({}, "0.0.0.0:8080"), path, "models"));
  }
  EXPECT_TRUE(reads(origins, "/health", "models")) << "load balancers";
}

// An attacker in the network may send pages in the server's name, without TLS.
TEST(PageOriginsTest, WithTlsAPageWithoutItIsNotItsOwn) {
  const PageOrigins origins({}, "0.0.0.0:443", /*tls=*/true);
  EXPECT_TRUE(Lets(origins, "https://models.example.com", "models.example.com"));
  EXPECT_FALSE(Lets(origins, "http://models.example.com", "models.example.com"));
}

TEST(PageOriginsTest, ListedPagesMayReadTheAnswers) {
  const PageOrigins origins({"https://chat.example.com", "http://localhost:3000"}, "0.0.0.0:8080");
  EXPECT_TRUE(Lets(origins, "http://localhost:3000", "models"));
  EXPECT_FALSE(Lets(origins, "http://localhost:3001", "models"));
  EXPECT_FALSE(Lets(origins, "https://chat.example.com.evil.example", "models"));
  const HttpHeaders headers = origins.HeadersFor(Request("https://chat.example.com", "models"));
  EXPECT_THAT(headers, Contains(Pair("Access-Control-Allow-Origin", "https://chat.example.com")));
  EXPECT_THAT(headers, Contains(Pair("Vary", "Origin")));
  for (const char* const other : {"http://localhost:3001", ""}) {
    EXPECT_THAT(origins.HeadersFor(Request(other, "models")), ElementsAre(Pair("Vary", "Origin")));
  }
}

TEST(PageOriginsTest, AllPages) {
  const PageOrigins origins({"*"}, "127.0.0.1:8080");
  EXPECT_TRUE(Lets(origins, "http://evil.example", "models"));
  EXPECT_TRUE(Lets(origins, "null", "models"));
  EXPECT_THAT(origins.HeadersFor(Request("null", "models")),
              Contains(Pair("Access-Control-Allow-Origin", "null")));
}

TEST(PageOriginsTest, Questions) {
  const PageOrigins origins({"https://chat.example.com"}, "0.0.0.0:8080");
  HttpRequest question = Request("https://chat.example.com", "models",
                                 {{"access-control-request-method", "POST"},
                                  {"access-control-request-headers", "authorization,x-a"},
                                  {"access-control-request-private-network", "true"}});
  EXPECT_FALSE(PageOrigins::IsQuestion(question)) << "a POST";
  question.method = "OPTIONS";
  EXPECT_TRUE(PageOrigins::IsQuestion(question));
  const HttpAnswer answer = origins.AnswerQuestion(question);
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.headers, Contains(Pair("Access-Control-Allow-Headers", "authorization,x-a")));
  EXPECT_THAT(answer.headers, Contains(Pair("Access-Control-Allow-Methods", HasSubstr("POST"))));
  EXPECT_THAT(answer.headers, Contains(Pair("Access-Control-Allow-Private-Network", "true")));
  EXPECT_THAT(origins.AnswerQuestion(Request("https://other", "models")).headers, IsEmpty());
  HttpRequest program = Request("", "models", {{"access-control-request-method", "POST"}});
  program.method = "OPTIONS";
  EXPECT_FALSE(PageOrigins::IsQuestion(program));
}

}  // namespace
}  // namespace longstream::gateway
