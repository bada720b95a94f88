// The services that every gRPC server has, called by name, as tools call them.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/raw_call.h"

namespace longstream {
namespace {

using StandardTest = ServerTest;

TEST_F(StandardTest, ReflectionListsTheService) {
  // The request is the message ServerReflectionRequest{list_services: ""}.
  const RawAnswer answer =
      CallRaw(channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              {std::string("\x3a\x00", 2)});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_NE(answer.messages[0].find("longstream.v1.Longstream"), std::string::npos);
  EXPECT_NE(answer.messages[0].find("grpc.health.v1.Health"), std::string::npos);
}

TEST_F(StandardTest, ChannelzKnowsTheServer) {
  const RawAnswer answer = CallRaw(channel(), "/grpc.channelz.v1.Channelz/GetServers", {""});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_FALSE(answer.messages[0].empty());
}

// A client may keep its connection open with pings. It sends at most one a second. By gRPC's
// default the server would close the connection after the fourth ping.
class PingTest : public ServerTest {
 protected:
  PingTest() : ServerTest(R"({"step_delay_us": 6000000})") {}
};

TEST_F(PingTest, AClientMayPing) {
  auto server =
      GrpcServer::Start({.listen = "127.0.0.1:0", .least_ping_interval = absl::Milliseconds(500)},
                        &models(), &sessions());
  ASSERT_TRUE(server.ok()) << server.status();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto stub = v1::Longstream::NewStub(
      grpc::CreateCustomChannel("127.0.0.1:" + std::to_string((*server)->port()),
                                grpc::InsecureChannelCredentials(), arguments));
  v1::GenerateRequest request = Request(Open());
  request.set_max_tokens(1);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace longstream
