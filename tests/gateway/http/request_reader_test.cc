// Requests that are right, in pieces of every size.
#include "gateway/http/request_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/gateway/http/read_requests.h"

namespace longstream::gateway {
namespace {

using State = RequestReader::State;

constexpr std::string_view kGet = "GET /v1/models?limit=2&a=b HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view kPost =
    "POST /v1/chat HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
constexpr std::string_view kChunks =
    "POST /chunks HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
    "3\r\nabc\r\n4;name=value\r\ndefg\r\nA\r\n0123456789\r\n0\r\nX-After: 1\r\n\r\n";

HttpRequest ReadOne(std::string_view bytes) {
  RequestReader reader({});
  std::vector<HttpRequest> requests = ReadIn(bytes.size(), reader, bytes);
  EXPECT_EQ(requests.size(), 1u) << reader.problem().text;
  return requests.empty() ? HttpRequest() : requests[0];
}

TEST(RequestReaderTest, TheFieldsOfARequest) {
  const HttpRequest get = ReadOne(kGet);
  EXPECT_EQ(get.method, "GET");
  EXPECT_EQ(get.path, "/v1/models") << "without the query";
  EXPECT_EQ(get.body, "");
  EXPECT_TRUE(get.keep_alive);
  EXPECT_FALSE(get.http_1_0);

  const HttpRequest post = ReadOne(
      "FROB * HTTP/1.1\r\nX-ReQuest-Id:\t A b \t\r\nCONTENT-LENGTH: 2\r\nx-a: 1\r\nX-A: 2\r\n\r\n"
      "\r\n");
  EXPECT_EQ(post.method, "FROB");
  EXPECT_EQ(post.path, "*");
  EXPECT_EQ(post.body, "\r\n");
  EXPECT_EQ(post.Header("x-request-id"), "A b");
  EXPECT_EQ(post.Header("x-a"), "1") << "the first one";
  EXPECT_EQ(post.Header("content-length"), "2");
  EXPECT_EQ(post.Header("none"), "");
  EXPECT_EQ(post.headers.size(), 4u);
}

TEST(RequestReaderTest, QueriesAreCutOff) {
  const auto path = [](const std::string& target) {
    return ReadOne("GET " + target + " HTTP/1.1\r\n\r\n").path;
  };
  EXPECT_EQ(path("/a?b"), "/a");
  EXPECT_EQ(path("/a?"), "/a");
  EXPECT_EQ(path("/?a?b=/c"), "/");
  EXPECT_EQ(path("?a"), "");
  EXPECT_EQ(path("/a%3Fb"), "/a%3Fb");
}

TEST(RequestReaderTest, TheConnectionAfterTheRequest) {
  const auto keeps = [](const std::string& version, const std::string& connection) {
    const HttpRequest request =
        ReadOne("GET / HTTP/" + version + "\r\n" +
                (connection.empty() ? "" : "Connection: " + connection + "\r\n") + "\r\n");
    EXPECT_EQ(request.http_1_0, version == "1.0");
    return request.keep_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_TRUE(keeps("1.1", "keep-alive"));
  EXPECT_FALSE(keeps("1.1", "close"));
  EXPECT_FALSE(keeps("1.1", "x, CLOSE"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_FALSE(keeps("1.0", "close"));
  EXPECT_TRUE(keeps("1.0", "Keep-Alive"));
}

TEST(RequestReaderTest, BodiesInChunks) {
  const HttpRequest request = ReadOne(kChunks);
  EXPECT_EQ(request.body, "abcdefg0123456789");
  EXPECT_EQ(request.Header("x-after"), "") << "what follows the body is no part of the header";
  EXPECT_EQ(request.headers.size(), 1u);
  EXPECT_EQ(ReadOne("POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n0\r\n\r\n").body, "");
  EXPECT_TRUE(ReadOne("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "1\r\na\r\n0\r\nConnection: close\r\nAuthorization: Bearer a\r\n\r\n")
                  .keep_alive);
}

// Requests that follow each other, cut at every place, and in pieces of every size.
TEST(RequestReaderTest, EverySplit) {
  std::string bytes;
  for (const std::string_view one : {kPost, kGet, kChunks, kGet, kChunks, kPost}) bytes += one;
  bytes += "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  const auto expect_all = [](const std::vector<HttpRequest>& requests) {
    ASSERT_EQ(requests.size(), 7u);
    for (const size_t i : {0u, 5u}) EXPECT_EQ(requests[i].body, "hello");
    for (const size_t i : {1u, 3u}) EXPECT_EQ(requests[i].path, "/v1/models");
    for (const size_t i : {2u, 4u}) EXPECT_EQ(requests[i].body, "abcdefg0123456789");
    for (const HttpRequest& request : requests) EXPECT_EQ(request.Header("x-after"), "");
  };
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    SCOPED_TRACE(piece);
    RequestReader reader({});
    expect_all(ReadIn(piece, reader, bytes));
    EXPECT_EQ(reader.state(), State::kIdle);
  }
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    SCOPED_TRACE(cut);
    RequestReader reader({});
    std::vector<HttpRequest> requests = ReadIn(cut, reader, std::string_view(bytes).substr(0, cut));
    for (HttpRequest& request : ReadIn(bytes.size(), reader, bytes.substr(cut))) {
      requests.push_back(std::move(request));
    }
    expect_all(requests);
  }
}

TEST(RequestReaderTest, States) {
  RequestReader reader({});
  EXPECT_EQ(reader.state(), State::kIdle);
  Add(reader, "P");
  EXPECT_EQ(reader.state(), State::kReading);
  Add(reader, kPost.substr(1));
  EXPECT_EQ(reader.state(), State::kComplete);
  Add(reader, kGet);
  Add(reader, "G");
  EXPECT_EQ(reader.state(), State::kComplete);
  EXPECT_EQ(reader.Take().body, "hello");
  EXPECT_EQ(reader.state(), State::kComplete);
  EXPECT_EQ(reader.Take().method, "GET");
  EXPECT_EQ(reader.state(), State::kReading) << "the G";
  Add(reader, "\r\n");
  EXPECT_EQ(reader.state(), State::kBad);
  EXPECT_EQ(reader.problem().status, 400);
  Add(reader, kGet);
  EXPECT_EQ(reader.state(), State::kBad) << "it reads no further request";
}

TEST(RequestReaderTest, ARequestAfterAnotherMayBeBad) {
  RequestReader reader({});
  Add(reader, std::string(kGet) + "\r\r");
  ASSERT_EQ(reader.state(), State::kComplete);
  reader.Take();
  EXPECT_EQ(reader.state(), State::kBad);
  EXPECT_EQ(reader.problem().status, 400);
}

TEST(RequestReaderTest, ExpectsContinueOnceARequest) {
  RequestReader reader({});
  const std::string_view header =
      "POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n";
  for (int i = 0; i < 2; ++i) {
    Add(reader, header.substr(0, 30));
    EXPECT_FALSE(reader.TakeExpectsContinue()) << "the header is not complete";
    Add(reader, header.substr(30));
    EXPECT_TRUE(reader.TakeExpectsContinue());
    EXPECT_FALSE(reader.TakeExpectsContinue());
    Add(reader, "abc");
    EXPECT_FALSE(reader.TakeExpectsContinue());
    EXPECT_EQ(reader.Take().body, "abc");
  }
  const auto expects = [](const std::string& bytes) {
    RequestReader one({});
    Add(one, bytes);
    return one.TakeExpectsContinue();
  };
  EXPECT_FALSE(expects("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"));
  EXPECT_FALSE(expects("POST / HTTP/1.1\r\nExpect: more\r\nContent-Length: 3\r\n\r\n"));
  EXPECT_FALSE(expects("POST / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n")) << "complete";
  EXPECT_FALSE(expects("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"))
      << "a client of HTTP/1.0 knows no 100";
  EXPECT_TRUE(
      expects("POST / HTTP/1.1\r\nExpect: 100-continue\r\n"
              "Transfer-Encoding: chunked\r\n\r\n"));
}

// Memory is taken for bytes that have come, and not for bytes that are announced.
TEST(RequestReaderTest, HeldBytes) {
  RequestReader reader({});
  const size_t idle = reader.held_bytes();
  EXPECT_LT(idle, 100u);
  Add(reader, "POST / HTTP/1.1\r\nContent-Length: 16777216\r\n\r\n");
  EXPECT_LT(reader.held_bytes(), 500u);
  size_t sent = 0;
  const std::string piece(10000, 'a');
  for (; sent + piece.size() <= 16777216; sent += piece.size()) {
    Add(reader, piece);
    EXPECT_GE(reader.held_bytes(), sent + piece.size());
    EXPECT_LE(reader.held_bytes(), 2 * (sent + piece.size()) + 1000);
  }
  Add(reader, piece.substr(0, 16777216 - sent));
  ASSERT_EQ(reader.state(), State::kComplete);
  Add(reader, std::string(50000, '\r'));
  EXPECT_GE(reader.held_bytes(), 16777216u + 50000);
  EXPECT_EQ(reader.Take().body.size(), 16777216u);
  EXPECT_EQ(reader.state(), State::kBad);
  EXPECT_LE(reader.held_bytes(), idle);
}

TEST(RequestReaderTest, AnIdleReaderHoldsLittle) {
  RequestReader reader({});
  std::string many;
  for (int i = 0; i < 2000; ++i) many += kGet;
  EXPECT_EQ(ReadIn(many.size(), reader, many).size(), 2000u);
  EXPECT_LT(reader.held_bytes(), 100u);
}

TEST(RequestReaderTest, RefuseFreesThePartOfTheRequest) {
  RequestReader reader({});
  Add(reader, "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(500000, 'a'));
  EXPECT_GE(reader.held_bytes(), 500000u);
  reader.Refuse({503, "too many bytes"});
  EXPECT_EQ(reader.state(), State::kBad);
  EXPECT_EQ(reader.problem().status, 503);
  EXPECT_LT(reader.held_bytes(), 100u);
  Add(reader, std::string(500000, 'a'));
  EXPECT_LT(reader.held_bytes(), 100u);
  EXPECT_EQ(reader.problem().text, "too many bytes");
}

}  // namespace
}  // namespace longstream::gateway
