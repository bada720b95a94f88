// The port of the cluster of a real server, as the kubelet and KEDA use it, from the start of the
// server to its end.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "client/connection.h"
#include "externalscaler/externalscaler.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/free_port.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

using externalscaler::IsActiveResponse;
using externalscaler::ScaledObjectRef;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;

constexpr std::chrono::seconds kPatience{60};

// A stream that ends if the server tells nothing for a minute.
template <typename Response>
struct Stream {
  Stream() { context.set_deadline(std::chrono::system_clock::now() + kPatience); }
  // Reads until `accept` takes a message. Returns whether one came.
  template <typename Accept>
  bool ReadUntil(const Accept& accept) {
    Response response;
    while (reader->Read(&response)) {
      if (accept(response)) return true;
    }
    return false;
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<Response>> reader;
};

class ClusterE2eTest : public testing::Test {
 protected:
  // The check that the kubelet's probe makes.
  HealthCheckResponse::ServingStatus Probe(const std::string& service) const {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = Health::NewStub(channel_)->Check(&context, request, &response);
    EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
    return response.status();
  }

  // A turn that the test cancels.
  static v1::GenerateRequest LongTurn(client::Connection* connection) {
    v1::GenerateRequest request;
    request.set_session_id(connection->Open("m").session_id());
    request.mutable_input()->set_text("abc");
    request.set_max_tokens(100'000);
    return request;
  }

  const MinimalModelDirectory minimal_;
  const std::string address_ = "127.0.0.1:" + std::to_string(FreePort());
  ServerProcess server_{
      kServerBinary,
      {"--model", minimal_.Flag(",options.step_delay_us=10000"), "--cluster-listen", address_}};
  const std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
};

// A draining server is not ready, but alive, and still tells the autoscaler what it does.
TEST_F(ClusterE2eTest, FromTheStartToTheEnd) {
  Stream<HealthCheckResponse> readiness;
  HealthCheckRequest ready;
  ready.set_service("ready");
  readiness.reader = Health::NewStub(channel_)->Watch(&readiness.context, ready);
  const auto has = [](HealthCheckResponse::ServingStatus status) {
    return [status](const HealthCheckResponse& response) { return response.status() == status; };
  };
  ASSERT_TRUE(readiness.ReadUntil(has(HealthCheckResponse::SERVING)));

  Stream<IsActiveResponse> activity;
  ScaledObjectRef trigger;
  trigger.set_name("longstream");
  trigger.set_namespace_("default");
  auto& metadata = *trigger.mutable_scalermetadata();
  metadata["scalerAddress"] = address_;
  metadata["metricName"] = "turns_running";
  metadata["targetValue"] = "4";
  activity.reader =
      externalscaler::ExternalScaler::NewStub(channel_)->StreamIsActive(&activity.context, trigger);
  IsActiveResponse active;
  ASSERT_TRUE(activity.reader->Read(&active));
  EXPECT_FALSE(active.result()) << "no turn runs";

  std::atomic<bool> ends = false;
  std::thread client([this, &ends] {
    client::Connection connection(server_.address());
    const v1::GenerateRequest request = LongTurn(&connection);
    EXPECT_THROW(
        connection.Generate(request, [&](const v1::GenerateResponse&) { return !ends.load(); }),
        client::CallError);
  });
  EXPECT_TRUE(activity.reader->Read(&active));
  EXPECT_TRUE(active.result());
  server_.Signal(SIGTERM);
  EXPECT_TRUE(readiness.ReadUntil(has(HealthCheckResponse::NOT_SERVING)));
  ends = true;
  client.join();
  EXPECT_EQ(server_.Wait(), 0);
  while (activity.reader->Read(&active)) {
  }
  EXPECT_FALSE(activity.reader->Finish().ok()) << "a stream that ends is not the end of work";
  while (readiness.ReadUntil([](const HealthCheckResponse&) { return true; })) {
  }
  readiness.reader->Finish();
}

TEST_F(ClusterE2eTest, AServerThatDrainsIsAlive) {
  client::Connection connection(server_.address());
  connection.WaitUntilServing("m", kPatience);
  EXPECT_EQ(Probe("live"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Probe("ready"), HealthCheckResponse::SERVING);
  const v1::GenerateRequest request = LongTurn(&connection);
  bool drains = false;
  EXPECT_THROW(connection.Generate(request,
                                   [&](const v1::GenerateResponse& response) {
                                     if (!response.has_delta()) return true;
                                     if (!drains) server_.Signal(SIGTERM);
                                     drains = true;
                                     if (Probe("ready") == HealthCheckResponse::SERVING)
                                       return true;
                                     EXPECT_EQ(Probe("live"), HealthCheckResponse::SERVING);
                                     EXPECT_EQ(Probe(""), HealthCheckResponse::SERVING);
                                     return false;
                                   }),
               client::CallError);
  EXPECT_TRUE(drains);
  EXPECT_EQ(server_.Wait(), 0);
}

TEST_F(ClusterE2eTest, OnlyWithTheFlag) {
  const ServerProcess other(kServerBinary, {"--model", minimal_.Flag()});
  EXPECT_THAT(other.Log(), HasSubstr("\"cluster_port\":\"0\""));
  EXPECT_THAT(server_.Log(),
              HasSubstr("\"cluster_port\":\"" + address_.substr(address_.find(':') + 1) + "\""));
}

TEST_F(ClusterE2eTest, AnAddressThatIsInUse) {
  const ServerRun run =
      RunServer(kServerBinary, {"--model", minimal_.Flag(), "--listen", "127.0.0.1:0",
                                "--metrics-listen", "", "--cluster-listen", address_});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.log, HasSubstr("cluster.listen: "));
}

}  // namespace
}  // namespace longstream
