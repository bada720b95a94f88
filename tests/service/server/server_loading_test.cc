// Models that are still loading, that failed to load, or that lose their device.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/synchronization/notification.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/server/grpc_server.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/server/transport/retry_seconds.h"

namespace longstream {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr char kSlowOpen[] = LONGSTREAM_BINARY_DIR "/test_plugins/slow_open.so";

// "broken" fails to load. "slow" loads when the test writes to its gate, which is a pipe
// (tests/service/serving/models/slow_open.cc).
class LoadingTest : public testing::Test {
 protected:
  LoadingTest()
      : slow_(kSlowOpen),
        pipe_(slow_.directory() / "gate"),
        models_({slow_.plugins(), slow_.host(), slow_.registry(), {}}, Sources(), nullptr),
        sessions_(&models_, {}) {
    auto server = GrpcServer::Start({.listen = "127.0.0.1:0"}, &models_, &sessions_);
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

  // Another server, which says in *ready whether it is.
  std::unique_ptr<GrpcServer> StartTelling(bool* ready) {
    GrpcServer::Options options;
    options.listen = "127.0.0.1:0";
    options.on_serving = [ready](bool serving) { *ready = serving; };
    auto server = GrpcServer::Start(options, &models_, &sessions_);
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }

  // Lets the model "slow" finish loading.
  void Load() {
    if (loaded_) return;
    loaded_ = true;
    std::ofstream(pipe_) << "{}";
    EXPECT_FALSE(models_.WaitUntilLoaded().ok()) << "the broken model should fail to load";
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
  ModelRegistry models_;
  SessionManager sessions_;
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
  EXPECT_EQ(RetrySeconds(status), 0.5);
  Load();
  EXPECT_EQ(State("slow"), v1::MODEL_STATE_READY);
  EXPECT_TRUE(Open("slow").ok());
}

TEST_F(LoadingTest, UnavailableWithTheReasonWhereLoadingFailed) {
  Load();
  EXPECT_EQ(State("broken"), v1::MODEL_STATE_FAILED);
  const grpc::Status status = Open("broken");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message().find("model broken could not be loaded: /"), 0u)
      << status.error_message();
  EXPECT_EQ(status.error_message().find("model broken", 1), std::string::npos);
  EXPECT_EQ(RetrySeconds(status), std::nullopt) << "it stays so";
}

TEST_F(LoadingTest, ATurnGoesOnWithoutATwinWhoseModelIsNotThere) {
  Load();
  v1::Session session;
  v1::OpenSessionRequest open;
  open.set_model("slow");
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->OpenSession(&context, open, &session).ok());
  }
  v1::GenerateRequest request;
  request.set_session_id(session.session_id());
  request.mutable_input()->set_text("hello");
  request.set_max_tokens(10);
  request.set_twin_model("broken");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  v1::TwinStarted started;
  v1::Finish finish;
  while (reader->Read(&response)) {
    if (response.has_started()) started = response.started().twin();
    if (response.has_finish()) finish = response.finish();
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_FALSE(started.comparable());
  EXPECT_NE(started.not_comparable_reason().find("could not be loaded"), std::string::npos);
  EXPECT_EQ(finish.usage().generated_tokens(), 10u);
  EXPECT_EQ(finish.twin().model(), "broken");
  EXPECT_EQ(finish.twin().code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(finish.twin().error(), started.not_comparable_reason());
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
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING) << "the server serves if one model does";
}

// An upgrade stops at a replica that serves only some of the models.
TEST_F(LoadingTest, TheServerIsReadyWhenEachModelHasBeen) {
  bool ready = true;
  const std::unique_ptr<GrpcServer> server = StartTelling(&ready);
  ASSERT_NE(server, nullptr);
  EXPECT_FALSE(ready);
  server->SetModelServing("slow", true);
  server->SetModelServing("another", true);
  EXPECT_FALSE(ready) << "broken has never been ready";
  server->SetModelServing("broken", true);
  EXPECT_TRUE(ready);
  server->SetModelServing("broken", false);
  server->SetModelServing("slow", false);
  EXPECT_TRUE(ready) << "another serves";
  server->SetModelServing("another", false);
  EXPECT_FALSE(ready);
}

TEST_F(LoadingTest, AModelThatWasUnloadedIsNotAwaited) {
  bool ready = true;
  const std::unique_ptr<GrpcServer> server = StartTelling(&ready);
  ASSERT_NE(server, nullptr);
  server->SetModelServing("slow", true);
  server->SetModelServing("broken", false);
  EXPECT_FALSE(ready);
  server->ForgetModel("broken");
  EXPECT_TRUE(ready);
}

// The device of "frail" is lost at position 30. "well" has another device.
class LostModelTest : public testing::Test {
 protected:
  LostModelTest()
      : models_({minimal_.plugins(), minimal_.host(), minimal_.registry(), {}}, Sources(),
                [this](const ModelStatus& status) {
                  if (status.state != ModelState::kFailed) return;
                  EXPECT_EQ(status.name, "frail");
                  server_->SetModelServing(status.name, false);
                  lost_.Notify();
                }),
        sessions_(&models_, {}) {
    EXPECT_TRUE(models_.WaitUntilLoaded().ok());
    auto server = GrpcServer::Start({.listen = "127.0.0.1:0"}, &models_, &sessions_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    for (const char* model : {"frail", "well"}) server_->SetModelServing(model, true);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::Longstream::NewStub(channel_);
  }

  ~LostModelTest() override {
    sessions_.Drain(absl::ZeroDuration());
    // The server uses models_ and sessions_, so it must end first. The server is declared before
    // models_ and sessions_, because the callback of models_ uses the server.
    server_.reset();
  }

  std::vector<ModelSource> Sources() {
    ModelSource frail = minimal_.Source(R"({"lose_device_at_position": 30})");
    frail.name = "frail";
    ModelSource well = minimal_.Source();
    well.name = "well";
    return {frail, well};
  }

  grpc::Status Open(const std::string& model, v1::Session* session) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_model(model);
    return stub_->OpenSession(&context, request, session);
  }

  grpc::Status Generate(const std::string& id) {
    grpc::ClientContext context;
    v1::GenerateRequest request;
    request.set_session_id(id);
    request.mutable_input()->set_text("hello");
    request.set_max_tokens(40);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) continue;
    return reader->Finish();
  }

  HealthCheckResponse::ServingStatus Health(const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    HealthCheckResponse response;
    request.set_service(service);
    EXPECT_TRUE(
        grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response).ok());
    return response.status();
  }

  absl::Notification lost_;
  MinimalModel minimal_;
  std::unique_ptr<GrpcServer> server_;
  ModelRegistry models_;
  SessionManager sessions_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

TEST_F(LostModelTest, FailsWithTheReasonAndTheOthersServe) {
  v1::Session frail;
  v1::Session well;
  ASSERT_TRUE(Open("frail", &frail).ok());
  ASSERT_TRUE(Open("well", &well).ok());
  const grpc::Status ended = Generate(frail.session_id());
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(RetrySeconds(ended), std::nullopt) << "the device does not come back";
  lost_.WaitForNotification();

  const grpc::Status refused = Generate(frail.session_id());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.error_message(),
            "model frail has failed: the device is lost: the device answers no more");
  EXPECT_EQ(RetrySeconds(refused), std::nullopt);
  v1::Session another;
  EXPECT_EQ(Open("frail", &another).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Generate(well.session_id()).ok());

  grpc::ClientContext model_context;
  v1::GetModelRequest request;
  request.set_name("frail");
  v1::Model model;
  ASSERT_TRUE(stub_->GetModel(&model_context, request, &model).ok());
  EXPECT_EQ(model.state(), v1::MODEL_STATE_FAILED);
  EXPECT_EQ(model.error(), "the device is lost: the device answers no more");
  EXPECT_EQ(Health("frail"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("well"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
  server_->SetModelServing("well", false);
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING) << "no model is left that serves";

  grpc::ClientContext close_context;
  v1::CloseSessionRequest close;
  close.set_session_id(frail.session_id());
  v1::CloseSessionResponse closed;
  EXPECT_TRUE(stub_->CloseSession(&close_context, close, &closed).ok());
}

}  // namespace
}  // namespace longstream
