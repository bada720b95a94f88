// The server's answers to clients that speak HTTP/2 without gRPC's library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/http2_connection.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

constexpr uint32_t kNoError = 0;

class RawHttp2Test : public testing::Test {
 protected:
  RawHttp2Test() {
    server_.emplace(kServerBinary, std::vector<std::string>{"--model", minimal_.Flag()});
    connection_.emplace(server_->address());
    connection_->WaitUntilServing("m", std::chrono::seconds(30));
  }

  int port() const { return std::stoi(server_->address().substr(sizeof("127.0.0.1:") - 1)); }

  // The message of a turn on a new session.
  std::string Turn(int max_tokens = 2) {
    v1::GenerateRequest request;
    request.set_session_id(connection_->Open("m").session_id());
    request.mutable_input()->set_text("abc");
    request.set_max_tokens(max_tokens);
    return request.SerializeAsString();
  }

  const MinimalModelDirectory minimal_;
  std::optional<ServerProcess> server_;
  std::optional<client::Connection> connection_;
};

// The longest timeouts that the protocol can write are 11 000 years, more nanoseconds than 64 bits
// count.
TEST_F(RawHttp2Test, TheLongestTimeoutsAreServed) {
  for (const char* timeout :
       {"99999999H", "99999999M", "99999999S", "99999999m", "2562047H", "2562048H", "1H"}) {
    Http2Connection http2(port());
    http2.Call(1, "Generate", {{"grpc-timeout", timeout}}, Turn());
    const std::string headers = http2.HeadersOf(1);
    EXPECT_TRUE(HasHeader(headers, "grpc-status", "0")) << timeout << ": " << headers;
  }
}

TEST_F(RawHttp2Test, TheShortestTimeoutsHavePassed) {
  for (const char* timeout : {"0n", "1n", "0H"}) {
    Http2Connection http2(port());
    // gRPC rounds a timeout up to a millisecond, in which a short turn could end.
    http2.Call(1, "Generate", {{"grpc-timeout", timeout}}, Turn(/*max_tokens=*/1000));
    // gRPC may end the call itself, by a reset instead of a status.
    EXPECT_FALSE(HasHeader(http2.HeadersOf(1), "grpc-status", "0")) << timeout;
  }
}

// A connection that is closed by a shutdown is told so by GOAWAY with NO_ERROR. With another code,
// clients would log an error, and some would not retry.
TEST_F(RawHttp2Test, AShutdownSaysGoodbyeWithoutAnError) {
  Http2Connection idle(port());
  Http2Connection used(port());
  used.Call(1, "Generate", {}, Turn());
  EXPECT_TRUE(HasHeader(used.HeadersOf(1), "grpc-status", "0"));
  const auto begin = std::chrono::steady_clock::now();
  server_->Signal(SIGTERM);
  for (Http2Connection* http2 : {&idle, &used}) {
    int goodbyes = 0;
    while (const std::optional<Http2Frame> frame = http2->Next()) {
      if (frame->type != Http2Frame::kGoAway) continue;
      EXPECT_EQ(frame->GoAwayCode(), kNoError) << frame->payload;
      ++goodbyes;
    }
    EXPECT_GE(goodbyes, 1) << "the connection was closed without GOAWAY";
  }
  EXPECT_EQ(server_->Wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace longstream
