// The services that every gRPC server has, called by name, as tools call them.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

using StandardTest = ServerTest;

// A watcher gets the status at once, and then each status that differs from the one before.
TEST_F(StandardTest, WatchTellsEveryChange) {
  for (const std::string name : {"m", "new"}) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    const auto reader = Health::NewStub(channel())->Watch(&context, request);
    HealthCheckResponse response;
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(),
              name == "m" ? HealthCheckResponse::SERVING : HealthCheckResponse::SERVICE_UNKNOWN);
    server().SetModelServing(name, false);
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    server().SetModelServing(name, false);
    server().SetModelServing("other", true);
    server().SetModelServing(name, true);
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
    server().SetNotServing();
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    server().SetModelServing("m", true);
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ExpectAlive();
}

TEST_F(StandardTest, AnUnloadedModelIsUnknown) {
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("m");
  const auto stub = Health::NewStub(channel());
  const auto reader = stub->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  server().ForgetModel("m");
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  const auto check = [&](const std::string& service) {
    grpc::ClientContext check_context;
    request.set_service(service);
    return stub->Check(&check_context, request, &response).error_code();
  };
  EXPECT_EQ(check("m"), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(check(""), grpc::StatusCode::OK);
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING) << "no model is left";
  server().SetModelServing("m", true);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << "it was loaded again";
  context.TryCancel();
  reader->Finish();
}

TEST_F(StandardTest, TellsWhetherTheServerServes) {
  std::vector<bool> told;
  GrpcServer::Options options;
  options.listen = "127.0.0.1:0";
  options.on_serving = [&told](bool serving) { told.push_back(serving); };
  auto other = GrpcServer::Start(options, &models(), &sessions());
  ASSERT_TRUE(other.ok()) << other.status();
  (*other)->SetModelServing("m", true);
  (*other)->SetModelServing("n", true);
  (*other)->SetModelServing("m", false);
  (*other)->ForgetModel("n");
  (*other)->SetModelServing("m", true);
  (*other)->SetNotServing();
  EXPECT_EQ(told, (std::vector<bool>{false, true, true, true, false, true, false}));
}

TEST_F(StandardTest, ManyWatchersComeAndGo) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      const auto stub = Health::NewStub(channel());
      for (int i = 0; i < 50; ++i) {
        grpc::ClientContext context;
        const auto reader = stub->Watch(&context, HealthCheckRequest());
        HealthCheckResponse response;
        EXPECT_TRUE(reader->Read(&response));
        server().SetModelServing("m", i % 2 == 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  server().SetModelServing("m", true);
  ExpectAlive();
}

TEST_F(StandardTest, HealthRefusesLongNames) {
  for (const char* method : {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) {
    const RawAnswer answer = CallRaw(channel(), method, {wire::Bytes(1, std::string(1025, 'a'))});
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(answer.status.error_message(), "service: at most 1024 bytes, found 1025");
  }
}

TEST_F(StandardTest, ReflectionListsTheService) {
  // The request is the message ServerReflectionRequest{list_services: ""}.
  const RawAnswer answer =
      CallRaw(channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              {std::string("\x3a\x00", 2)});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_NE(answer.messages[0].find("longstream.v1.Longstream"), std::string::npos);
  EXPECT_NE(answer.messages[0].find("grpc.health.v1.Health"), std::string::npos);
  EXPECT_NE(answer.messages[0].find("grpc.reflection.v1alpha.ServerReflection"), std::string::npos);
}

// The answers of the reflection service to one request each, sent on one stream.
std::vector<ServerReflectionResponse> Reflect(
    const std::shared_ptr<grpc::Channel>& channel,
    const std::vector<ServerReflectionRequest>& requests) {
  grpc::ClientContext context;
  const auto stream = ServerReflection::NewStub(channel)->ServerReflectionInfo(&context);
  std::vector<ServerReflectionResponse> answers(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(stream->Write(requests[i]));
    EXPECT_TRUE(stream->Read(&answers[i]));
    EXPECT_EQ(answers[i].original_request().DebugString(), requests[i].DebugString());
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return answers;
}

// A tool gets the files that it needs to make requests, with the files that they import.
TEST_F(StandardTest, ReflectionGivesFiles) {
  std::vector<ServerReflectionRequest> requests(3);
  requests[0].set_file_containing_symbol("longstream.v1.Longstream");
  requests[1].set_file_containing_symbol("longstream.v1.Longstream.Generate");
  requests[2].set_file_by_filename("longstream/v1/longstream.proto");
  for (const ServerReflectionResponse& answer : Reflect(channel(), requests)) {
    google::protobuf::DescriptorPool pool;
    const auto& files = answer.file_descriptor_response().file_descriptor_proto();
    for (int i = files.size() - 1; i >= 0; --i) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(files[i]));
      EXPECT_NE(pool.BuildFile(file), nullptr) << file.name() << " comes before its imports";
    }
    EXPECT_NE(pool.FindServiceByName("longstream.v1.Longstream"), nullptr);
  }
}

TEST_F(StandardTest, ReflectionKnowsExtensionsAndNamesErrors) {
  std::vector<ServerReflectionRequest> requests(6);
  requests[0].set_all_extension_numbers_of_type("longstream.v1.Session");
  requests[1].set_all_extension_numbers_of_type("nobody");
  requests[2].set_file_by_filename("nobody");
  requests[3].set_file_containing_symbol("nobody");
  requests[4].mutable_file_containing_extension()->set_containing_type("longstream.v1.Session");
  const std::vector<ServerReflectionResponse> answers = Reflect(channel(), requests);
  EXPECT_EQ(answers[0].all_extension_numbers_response().base_type_name(), "longstream.v1.Session");
  for (int i = 1; i < 5; ++i) {
    EXPECT_EQ(answers[i].error_response().error_code(), grpc::StatusCode::NOT_FOUND) << i;
  }
  EXPECT_EQ(answers[5].error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(StandardTest, ReflectionRefusesLongAndMalformedRequests) {
  for (const auto& [request, error] :
       {std::pair(std::string(65537, '\x0a'), "at most 65536 bytes, found 65537"),
        std::pair(std::string("\xff"), "malformed at byte 0")}) {
    const RawAnswer answer = CallRaw(
        channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {request});
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(answer.status.error_message().find(error), std::string::npos)
        << answer.status.error_message();
  }
}

size_t NumThreads() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

TEST_F(StandardTest, OpenReflectionStreamsTakeNoThreads) {
  const auto stub = ServerReflection::NewStub(channel());
  Reflect(channel(), {});
  const size_t before = NumThreads();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<
      std::unique_ptr<grpc::ClientReaderWriter<ServerReflectionRequest, ServerReflectionResponse>>>
      streams;
  for (int i = 0; i < 100; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(stub->ServerReflectionInfo(contexts.back().get()));
    ServerReflectionRequest request;
    request.set_list_services("");
    ServerReflectionResponse answer;
    EXPECT_TRUE(streams.back()->Write(request));
    EXPECT_TRUE(streams.back()->Read(&answer));
  }
  EXPECT_LT(NumThreads(), before + 20);
  for (const auto& stream : streams) {
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
}

TEST_F(StandardTest, ChannelzIsOffByDefault) {
  const RawAnswer answer = CallRaw(channel(), "/grpc.channelz.v1.Channelz/GetServers", {""});
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(StandardTest, ChannelzKnowsTheServer) {
  auto server =
      GrpcServer::Start({.listen = "127.0.0.1:0", .channelz = true}, &models(), &sessions());
  ASSERT_TRUE(server.ok()) << server.status();
  const RawAnswer answer =
      CallRaw(grpc::CreateChannel("127.0.0.1:" + std::to_string((*server)->port()),
                                  grpc::InsecureChannelCredentials()),
              "/grpc.channelz.v1.Channelz/GetServers", {""});
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
