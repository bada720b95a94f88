// The services that every gRPC server has, called by name, as tools call them.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

class StandardTest : public ServerTest {
 protected:
  // Sends one serialized request to a method and receives the serialized response.
  grpc::Status Call(const std::string& method, const std::string& request, std::string* response) {
    grpc::GenericStub generic(channel());
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = generic.PrepareCall(&context, method, &queue);
    call->StartCall(Next(&queue));
    EXPECT_TRUE(Wait(&queue));
    const grpc::Slice slice(request);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), Next(&queue));
    Wait(&queue);
    grpc::ByteBuffer buffer;
    call->Read(&buffer, Next(&queue));
    if (Wait(&queue)) {
      grpc::Slice whole;
      EXPECT_TRUE(buffer.DumpToSingleSlice(&whole).ok());
      response->assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
    }
    grpc::Status status;
    call->Finish(&status, Next(&queue));
    Wait(&queue);
    return status;
  }

 private:
  static void* Next(grpc::CompletionQueue* queue) { return queue; }
  static bool Wait(grpc::CompletionQueue* queue) {
    void* tag = nullptr;
    bool ok = false;
    return queue->Next(&tag, &ok) && ok;
  }
};

TEST_F(StandardTest, ReflectionListsTheService) {
  // The request is the message ServerReflectionRequest{list_services: ""}.
  std::string response;
  const grpc::Status status = Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                   {"\x3a\x00", 2}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(response.find("longstream.v1.Longstream"), std::string::npos);
  EXPECT_NE(response.find("grpc.health.v1.Health"), std::string::npos);
}

TEST_F(StandardTest, ChannelzKnowsTheServer) {
  std::string response;
  const grpc::Status status = Call("/grpc.channelz.v1.Channelz/GetServers", "", &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(response.empty());
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

// gRPC itself refuses a request that is not a protobuf message (docs/life-of-a-request.md).
TEST_F(StandardTest, BytesThatAreNoMessageAreRefused) {
  std::string response;
  const grpc::Status status =
      Call("/longstream.v1.Longstream/GetSession", "\xff\xff\xff", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  ExpectAlive();
}

}  // namespace
}  // namespace longstream
