// Requests that are no messages, in every call of the service.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

struct Rpc {
  std::string path;
  const google::protobuf::Descriptor* request;
};

std::vector<Rpc> EveryRpc() {
  const google::protobuf::ServiceDescriptor& service =
      *v1::Session::descriptor()->file()->FindServiceByName("Longstream");
  std::vector<Rpc> rpcs;
  for (int i = 0; i < service.method_count(); ++i) {
    const google::protobuf::MethodDescriptor& method = *service.method(i);
    rpcs.push_back({"/" + service.full_name() + "/" + method.name(), method.input_type()});
  }
  return rpcs;
}

using MalformedRequestTest = ServerTest;

TEST_F(MalformedRequestTest, EveryCallNamesTheMessage) {
  for (const Rpc& rpc : EveryRpc()) {
    const RawAnswer answer = CallRaw(channel(), rpc.path, {"\xff\xff\xff"});
    EXPECT_EQ(answer.status.error_code(), StatusCode::INVALID_ARGUMENT) << rpc.path;
    EXPECT_EQ(answer.status.error_message(),
              rpc.request->name() + ": malformed at byte 0: no field begins here");
    EXPECT_TRUE(answer.messages.empty()) << rpc.path;
  }
  ExpectAlive();
}

TEST_F(MalformedRequestTest, EveryCallNeedsAMessage) {
  for (const Rpc& rpc : EveryRpc()) {
    const RawAnswer answer = CallRaw(channel(), rpc.path, {});
    EXPECT_EQ(answer.status.error_code(), StatusCode::INVALID_ARGUMENT) << rpc.path;
    EXPECT_THAT(answer.status.error_message(), HasSubstr("no message")) << rpc.path;
  }
  ExpectAlive();
}

// A new call that the service does not add would be UNIMPLEMENTED.
TEST_F(MalformedRequestTest, EveryCallIsServed) {
  for (const Rpc& rpc : EveryRpc()) {
    const RawAnswer answer = CallRaw(channel(), rpc.path, {""});
    EXPECT_NE(answer.status.error_code(), StatusCode::UNIMPLEMENTED) << rpc.path;
    EXPECT_THAT(answer.status.error_message(), Not(HasSubstr("malformed"))) << rpc.path;
  }
}

// An unknown field comes from a client that is newer than the server.
TEST_F(MalformedRequestTest, UnknownFieldsAreIgnored) {
  const std::string request = wire::Bytes(1, "m") + wire::Bytes(1000, "new");
  const RawAnswer answer = CallRaw(channel(), "/longstream.v1.Longstream/GetModel", {request});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.messages.size(), 1u);
  v1::Model model;
  EXPECT_TRUE(model.ParseFromString(answer.messages[0]));
  EXPECT_EQ(model.name(), "m");
}

TEST_F(MalformedRequestTest, CompressedRequestsAreRefused) {
  const std::string request(1 << 20, '\0');
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    for (const Rpc& rpc : EveryRpc()) {
      const RawAnswer answer = CallRaw(channel(), rpc.path, {request}, algorithm);
      EXPECT_EQ(answer.status.error_code(), StatusCode::UNIMPLEMENTED) << rpc.path;
      EXPECT_THAT(answer.status.error_message(), HasSubstr("Compression algorithm"));
      EXPECT_THAT(answer.status.error_message(), HasSubstr("is disabled"));
    }
  }
  ExpectAlive();
}

}  // namespace
}  // namespace longstream
