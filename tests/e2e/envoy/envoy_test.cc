// A real Envoy with docs/envoy.yaml in front of the server: what hostile clients send ends there,
// and honest clients are served through it.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "tests/e2e/envoy/envoy_config.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/envoy_process.h"
#include "tests/processes/free_port.h"
#include "tests/processes/http2_frames.h"
#include "tests/processes/server_process.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr size_t kMiB = size_t{1} << 20;

const std::string kRequestHeaders = HpackBlock(GrpcHeaders("/longstream.v1.Longstream/Generate"));

class EnvoyTest : public testing::Test {
 protected:
  EnvoyTest() {
    server_ = std::make_unique<ServerProcess>(
        kServerBinary,
        std::vector<std::string>{"--model", files_.Flag(",options.step_delay_us=10000")});
    port_ = FreePort();
    envoy_ = std::make_unique<EnvoyProcess>(
        files_.Write("envoy.yaml", EnvoyConfig({port_, server_->port()})), files_.string() + "/log",
        port_);
    client::Connection(address()).WaitUntilServing("m", kPatience);
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // The number of tokens of a turn of 200, through Envoy. The turn takes two seconds.
  int Tokens() const {
    client::Connection connection(address());
    v1::GenerateRequest request;
    request.set_session_id(connection.Open("m").session_id());
    request.mutable_input()->set_text("abc");
    request.set_max_tokens(200);
    return connection.Generate(request).tokens();
  }

  // A connection that has begun HTTP/2.
  TcpClient Raw() const {
    TcpClient client(port_);
    client.Send(std::string(kHttp2Preface) + std::string(kEmptySettings));
    return client;
  }

  // Sends `begin`, then `more(i)` for i = 0, 1, ... until Envoy closes the connection, while an
  // honest turn runs. Expects that Envoy closes it before 32 MiB, that Envoy and the server need
  // little memory for it, and that the turn gets all its tokens.
  template <typename Function>
  void ExpectBounded(const std::string& begin, const Function& more) {
    constexpr size_t kMost = 32 * kMiB;
    EXPECT_EQ(Tokens(), 200);
    const size_t envoy_before = envoy_->resident_bytes();
    const size_t server_before = server_->resident_bytes();
    int tokens = 0;
    std::thread honest([&] { tokens = Tokens(); });
    const TcpClient client = Raw();
    client.Send(begin);
    size_t sent = 0;
    for (int i = 0; sent < kMost; ++i) {
      const std::string bytes = more(i);
      if (!client.Send(bytes)) break;
      sent += bytes.size();
    }
    EXPECT_LT(sent, kMost) << "Envoy keeps the connection open";
    EXPECT_LT(envoy_->resident_bytes(), envoy_before + 16 * kMiB);
    EXPECT_LT(server_->resident_bytes(), server_before + 16 * kMiB);
    honest.join();
    EXPECT_EQ(tokens, 200);
  }

  const MinimalModelDirectory files_;
  std::unique_ptr<ServerProcess> server_;
  int port_ = 0;
  std::unique_ptr<EnvoyProcess> envoy_;
};

TEST_F(EnvoyTest, HonestStreamsGetAllTokens) {
  std::vector<int> tokens(8);
  std::vector<std::thread> clients;
  for (int& count : tokens) clients.emplace_back([this, &count] { count = Tokens(); });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(tokens, std::vector<int>(8, 200));
}

TEST_F(EnvoyTest, HeadersWithoutAnEnd) {
  const std::string fields = HpackHeader("x", std::string(100, 'x'));
  std::string payload;
  while (payload.size() + fields.size() <= kHttp2MaxPayload) payload += fields;
  ExpectBounded(Frame(Http2Frame::kHeaders, Http2Frame::kNone, 1, kRequestHeaders), [&](int) {
    return Frame(Http2Frame::kContinuation, Http2Frame::kNone, 1, payload);
  });
}

TEST_F(EnvoyTest, ContinuationsWithoutContent) {
  std::string frames;
  for (int i = 0; i < 1000; ++i)
    frames += Frame(Http2Frame::kContinuation, Http2Frame::kNone, 1, "");
  ExpectBounded(Frame(Http2Frame::kHeaders, Http2Frame::kNone, 1, kRequestHeaders),
                [&](int) { return frames; });
}

TEST_F(EnvoyTest, CallsThatAreResetAtOnce) {
  ExpectBounded("", [&](int i) {
    std::string frames;
    for (int call = 0; call < 100; ++call) {
      const uint32_t stream = 200 * static_cast<uint32_t>(i) + 2 * static_cast<uint32_t>(call) + 1;
      frames += Frame(Http2Frame::kHeaders, Http2Frame::kEndHeaders, stream, kRequestHeaders) +
                Frame(Http2Frame::kReset, Http2Frame::kNone, stream, BigEndian(8, 4));
    }
    return frames;
  });
}

TEST_F(EnvoyTest, SettingsWithoutAnEnd) {
  std::string frames;
  for (int i = 0; i < 1000; ++i) frames += std::string(kEmptySettings);
  ExpectBounded("", [&](int) { return frames; });
}

TEST_F(EnvoyTest, TooManyFieldsAreRefused) {
  const auto channel = grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::Longstream::NewStub(channel);
  for (const auto& [fields, served] : {std::pair(20, true), std::pair(100, false)}) {
    grpc::ClientContext context;
    for (int i = 0; i < fields; ++i) context.AddMetadata("x" + std::to_string(i), "x");
    v1::ListModelsResponse response;
    const grpc::Status status = stub->ListModels(&context, {}, &response);
    EXPECT_EQ(status.ok(), served) << fields << ": " << status.error_message();
  }
}

TEST_F(EnvoyTest, OtherServicesCannotBeReached) {
  const auto channel = grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/grpc.channelz.v1.Channelz/GetServers"}) {
    EXPECT_EQ(CallRaw(channel, method, {""}).status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_TRUE(CallRaw(channel, "/grpc.health.v1.Health/Check", {""}).status.ok());
}

}  // namespace
}  // namespace longstream
