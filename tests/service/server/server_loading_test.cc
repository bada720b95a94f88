// A server whose models are not there yet, or never will be.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/scheduler/dispatcher.h"
#include "service/scheduler/model_set.h"
#include "service/server/grpc_server.h"
#include "tests/service/scheduler/scheduler_fixture.h"

namespace longstream {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr char kSlowOpen[] = LONGSTREAM_BINARY_DIR "/test_plugins/slow_open.so";

// "broken" fails to load; "slow" is loaded once its gate, a pipe, has been written (slow_open.cc).
class LoadingTest : public testing::Test {
 protected:
  LoadingTest()
      : slow_(kSlowOpen),
        pipe_(slow_.directory() / "gate"),
        models_({slow_.plugins(), slow_.host(), slow_.registry(), {}}, Sources(), nullptr),
        dispatcher_(&models_, {}) {
    auto server = GrpcServer::Start({.listen = "127.0.0.1:0"}, &models_, &dispatcher_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::Longstream::NewStub(channel_);
  }
  ~LoadingTest() override { Load(); }

  std::vector<ModelSource> Sources() {
    EXPECT_EQ(mkfifo(pipe_.c_str(), 0600), 0);
    ModelSource broken = slow_.Source();
    broken.name = "broken";
    broken.directory = "/nonexistent";
    ModelSource slow = slow_.Source();
    slow.name = "slow";
    return {broken, slow};
  }

  // Lets the loading go on.
  void Load() {
    if (loaded_) return;
    loaded_ = true;
    std::ofstream(pipe_) << "{}";
    EXPECT_FALSE(models_.WaitUntilLoaded().ok()) << "one of them is broken";
  }

  HealthCheckResponse::ServingStatus Health(const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    HealthCheckResponse response;
    request.set_service(service);
    const grpc::Status status =
        grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response);
    EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
    return response.status();
  }

  grpc::Status Open(const std::string& model) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    v1::Session session;
    request.set_model(model);
    return stub_->OpenSession(&context, request, &session);
  }

  v1::ModelState State(const std::string& model) {
    grpc::ClientContext context;
    v1::GetModelRequest request;
    v1::Model response;
    request.set_name(model);
    EXPECT_TRUE(stub_->GetModel(&context, request, &response).ok());
    return response.state();
  }

  MinimalModel slow_;
  const std::filesystem::path pipe_;
  ModelSet models_;
  Dispatcher dispatcher_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
  bool loaded_ = false;
};

TEST_F(LoadingTest, UnavailableWhileLoading) {
  EXPECT_EQ(State("slow"), v1::MODEL_STATE_LOADING);
  const grpc::Status status = Open("slow");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "model slow is loading");
  Load();
  EXPECT_EQ(State("slow"), v1::MODEL_STATE_READY);
  EXPECT_TRUE(Open("slow").ok());
}

TEST_F(LoadingTest, UnavailableWithTheReasonWhereLoadingFailed) {
  Load();
  EXPECT_EQ(State("broken"), v1::MODEL_STATE_FAILED);
  const grpc::Status status = Open("broken");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("could not be loaded"), std::string::npos);
}

TEST_F(LoadingTest, ModelsThatAreNotThereDoNotServe) {
  for (const char* service : {"", "slow", "broken"}) {
    EXPECT_EQ(Health(service), HealthCheckResponse::NOT_SERVING) << service;
  }
  Load();
  server_->SetModelServing("slow", true);
  server_->SetModelServing("broken", false);
  EXPECT_EQ(Health("slow"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("broken"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING) << "one model is enough";
}

}  // namespace
}  // namespace longstream
