// Requests that the reader refuses: too long, malformed, or with two ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/request_reader.h"
#include "tests/gateway/http/read_requests.h"

namespace longstream::gateway {
namespace {

using State = RequestReader::State;

int StatusOf(std::string_view bytes, const RequestLimits& limits = {}) {
  return ProblemIn(bytes, limits).status;
}

TEST(RefusedRequestsTest, Malformed) {
  for (const std::string_view bytes : {
           std::string_view("\r\n\r\n"),
           std::string_view("GET\r\n\r\n"),
           std::string_view("GET /\r\n\r\n"),
           std::string_view(" GET / HTTP/1.1\r\n\r\n"),
           std::string_view("GET  / HTTP/1.1\r\n\r\n"),
           std::string_view("GET / HTTP/1.1\n\n"),
           std::string_view("GET / HTTP/1.1\r\na\r\n\r\n"),
           std::string_view("GET / HTTP/1.1\r\na : b\r\n\r\n"),
           std::string_view("GET / HTTP/1.1\r\n: b\r\n\r\n"),
           std::string_view("GET / HTTP/1.1\r\n a: b\r\n\r\n"),
           std::string_view("GET / HTTP/1.1\r\na: b\0c\r\n\r\n", 25),
           std::string_view("GET / HTTP/1.1\r\na: b\rc\r\n\r\n"),
           std::string_view("GET /\x01 HTTP/1.1\r\n\r\n"),
           std::string_view("GET / HTTP/0.9\r\n\r\n"),
           std::string_view("GET / HTTP/1.2\r\n\r\n"),
           std::string_view("GET / HTTP/2.0\r\n\r\n"),
           std::string_view("GET / http/1.1\r\n\r\n"),
           std::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
           std::string_view("\x16\x03\x01\x02\x00\x01", 6),
       }) {
    const RequestReader::Problem problem = ProblemIn(bytes);
    EXPECT_EQ(problem.status, 400) << bytes;
    EXPECT_EQ(problem.text.find("this is no request of HTTP/1.1: "), 0u) << problem.text;
  }
}

TEST(RefusedRequestsTest, MalformedLengths) {
  for (const char* const length : {"-1", "+1", "0x1", "1 1", "a", "", "1,2", "1,", "1.0",
                                   "18446744073709551616", "99999999999999999999999999"}) {
    EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length: " + std::string(length) + "\r\n\r\na"),
              400)
        << length;
  }
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"), 0);
}

TEST(RefusedRequestsTest, MalformedChunks) {
  for (const char* const chunks :
       {"x\r\n\r\n\r\n\r\n", "-1\r\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "1\nabc\n0\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n", "\r\n\r\n\r\n\r\n", "1\r\na\r\n0\r\nname\r\n\r\n",
        "1\r\na\r\n0\r\nContent-Length: 1\r\n\r\n"}) {
    EXPECT_EQ(
        StatusOf("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks)),
        400)
        << chunks;
  }
  for (const char* const size : {"fffffffffffffffff", "ffffffffffffffff", "7fffffffffffffff"}) {
    EXPECT_NE(StatusOf("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(size) +
                       "\r\nabc"),
              0)
        << size;
  }
}

// Two programs that disagree about the end of a request let a client smuggle a second one into it.
TEST(RefusedRequestsTest, TwoEnds) {
  const std::string length = "Content-Length: 5\r\n";
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const auto status = [](const std::string& headers, const std::string& version = "1.1") {
    return StatusOf("POST / HTTP/" + version + "\r\n" + headers + "\r\n0\r\n\r\n");
  };
  EXPECT_EQ(status(length), 0);
  EXPECT_EQ(status(chunked), 0);
  EXPECT_EQ(status(length + chunked), 400);
  EXPECT_EQ(status(chunked + length), 400);
  EXPECT_EQ(status(chunked + chunked), 400);
  EXPECT_EQ(status(chunked, "1.0"), 400);
  for (const std::string value :
       {"gzip", "identity", "chunked, gzip", "gzip, chunked", "xchunked", "chunked, chunked",
        "chunked;a=b", "", "\"chunked\"", "chunked,"}) {
    const std::string encoding = "Transfer-Encoding: " + value + "\r\n";
    for (const std::string& headers :
         {encoding, encoding + length, length + encoding, encoding + chunked, chunked + encoding}) {
      EXPECT_EQ(status(headers), 400) << headers;
    }
  }
}

TEST(RefusedRequestsTest, LongHeaders) {
  const RequestLimits limits{.header_bytes = 1000, .header_fields = 10};
  const auto header = [](size_t size) {
    const std::string begin = "GET / HTTP/1.1\r\na: ";
    return begin + std::string(size - begin.size() - 4, 'a') + "\r\n\r\n";
  };
  EXPECT_EQ(StatusOf(header(1000), limits), 0);
  EXPECT_EQ(StatusOf(header(1001), limits), 431);
  EXPECT_EQ(StatusOf("GET /" + std::string(2000, 'a'), limits), 431);
  EXPECT_EQ(StatusOf(std::string(2000, 'a'), limits), 431);
  EXPECT_EQ(StatusOf("GET /" + std::string(800, 'a') + " HTTP/1.1\r\na: " + std::string(800, 'a') +
                         "\r\n\r\n",
                     limits),
            431);
  for (const size_t piece : {1u, 7u, 999u}) {
    RequestReader reader(limits);
    ReadIn(piece, reader, header(1001));
    EXPECT_EQ(reader.problem().status, 431);
    EXPECT_EQ(reader.problem().text, "the header of a request may have 1000 bytes and 10 fields");
  }
}

TEST(RefusedRequestsTest, ManyFields) {
  const RequestLimits limits{.header_fields = 10};
  const auto request = [](int fields) {
    std::string text = "GET / HTTP/1.1\r\n";
    for (int i = 0; i < fields; ++i) text += "a:\r\n";
    return text + "\r\n";
  };
  EXPECT_EQ(StatusOf(request(10), limits), 0);
  EXPECT_EQ(StatusOf(request(11), limits), 431);
  for (size_t piece = 1; piece < 30; ++piece) {
    RequestReader reader(limits);
    EXPECT_EQ(ReadIn(piece, reader, request(10)).size(), 1u);
    ReadIn(piece, reader, request(11));
    EXPECT_EQ(reader.problem().status, 431);
  }
}

// Beast's limit forgets the fields before a piece that ends with the first byte of the next one.
TEST(RefusedRequestsTest, HeadersWithoutEndThatComeFieldByField) {
  const std::string field = "name: v\r\n";
  for (size_t begun = 0; begun < field.size(); ++begun) {
    SCOPED_TRACE(begun);
    RequestReader reader({.header_bytes = 1000, .header_fields = 1'000'000});
    Add(reader, "GET / HTTP/1.1\r\n" + field.substr(0, begun));
    int sent = 0;
    while (reader.state() == State::kReading && sent < 10'000) {
      Add(reader, field.substr(begun) + field.substr(0, begun));
      ++sent;
    }
    EXPECT_EQ(reader.problem().status, 431);
    EXPECT_LE(sent, 112);
  }
}

TEST(RefusedRequestsTest, LongBodies) {
  const RequestLimits limits{.body_bytes = 100};
  const auto with_length = [](int length) {
    return "POST / HTTP/1.1\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  };
  EXPECT_EQ(StatusOf(with_length(100) + std::string(100, 'a'), limits), 0);
  const RequestReader::Problem problem = ProblemIn(with_length(101), limits);
  EXPECT_EQ(problem.status, 413) << "before the body comes";
  EXPECT_EQ(problem.text, "the body of a request may have 100 bytes");

  const std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "19\r\n" + std::string(25, 'a') + "\r\n";
  const std::string four = chunk + chunk + chunk + chunk;
  EXPECT_EQ(StatusOf(chunked + four + "0\r\n\r\n", limits), 0);
  EXPECT_EQ(StatusOf(chunked + four + "1\r\na\r\n", limits), 413);
  EXPECT_EQ(StatusOf(chunked + "65\r\naa", limits), 413);
  EXPECT_EQ(StatusOf(chunked + "ffffffffffffffff\r\na", limits), 413);
}

// Lines between chunks, and fields after them, have no end.
TEST(RefusedRequestsTest, LongLinesBetweenChunks) {
  const std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string begin : {"1;", "1;a=\"", "1", "0;a=", "0\r\nname: ", "1\r\na\r\n0000"}) {
    SCOPED_TRACE(begin);
    RequestReader reader({.header_bytes = 1000});
    Add(reader, chunked + begin);
    const std::string piece(100, begin == "1\r\na\r\n0000" ? '0' : 'a');
    size_t held = 0;
    for (int i = 0; i < 100; ++i) {
      Add(reader, piece);
      held = std::max(held, reader.held_bytes());
    }
    EXPECT_EQ(reader.state(), State::kBad);
    EXPECT_LT(held, 3000u);
  }
  RequestReader reader({.header_bytes = 1000});
  Add(reader, chunked + "0\r\n");
  for (int i = 0; i < 200; ++i) Add(reader, "name: v\r\n");
  EXPECT_EQ(reader.problem().status, 431);
}

}  // namespace
}  // namespace longstream::gateway
