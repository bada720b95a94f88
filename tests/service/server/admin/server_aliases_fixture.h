// A server with aliases and a store, its operators' listener, and calls of both.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_ADMIN_SERVER_ALIASES_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_ADMIN_SERVER_ALIASES_FIXTURE_H_

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "longstream/admin/v1/admin.grpc.pb.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/server/admin/admin_server.h"
#include "service/server/grpc_server.h"
#include "service/serving/models/model_admin.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/temporary_directory.h"

namespace longstream {

// The alias "chat" of the configuration has the arms a=90 and b=10. Operators can load "tiny".
class ServerAliasesTest : public testing::Test {
 protected:
  ServerAliasesTest() {
    std::filesystem::copy(minimal_.directory(), roots_.path() / "tiny",
                          std::filesystem::copy_options::recursive);
    Start();
  }
  ~ServerAliasesTest() override { Stop(); }

  void Start() {
    store_ = *store::SqliteStore::Open(store_directory_.string(), {});
    commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
    ModelRegistry::Options options;
    options.plugins = minimal_.plugins();
    options.host = minimal_.host();
    options.metrics = minimal_.registry();
    std::vector<ModelSource> sources(2, minimal_.Source());
    sources[0].name = "a";
    sources[1].name = "b";
    models_ = std::make_unique<ModelRegistry>(options, sources, [this](const ModelStatus& status) {
      GrpcServer* const server = told_.load();
      if (server == nullptr) return;
      if (status.state == ModelState::kGone) return server->ForgetModel(status.name);
      server_->SetModelServing(status.name, status.state == ModelState::kReady);
    });
    ASSERT_TRUE(models_->WaitUntilLoaded().ok());
    std::vector<std::string> problems;
    SessionManager::Options manager;
    manager.store = store_.get();
    manager.commits = commits_.get();
    manager.most_listed_rows = 3;
    manager.aliases = std::make_shared<AliasTable>(
        MergeAliases(configured_, *store_->Aliases(), {"a", "b"}, &problems), minimal_.registry(),
        book_);
    EXPECT_THAT(problems, testing::IsEmpty());
    sessions_ = std::make_unique<SessionManager>(models_.get(), manager);
    ModelAdmin::Options operations{{roots_.string()}};
    operations.aliases = {configured_, commits_.get()};
    operations_ = std::make_unique<ModelAdmin>(models_.get(), sessions_.get(), operations);
    server_ = *GrpcServer::Start({.listen = "127.0.0.1:0"}, models_.get(), sessions_.get());
    for (const char* name : {"a", "b"}) server_->SetModelServing(name, true);
    told_ = server_.get();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::Longstream::NewStub(channel_);
    AdminServer::Options listener;
    listener.listen = "unix:" + sockets_.string() + "/admin.sock";
    admin_server_ = *AdminServer::Start(listener, operations_.get());
    admin_ = admin::v1::Admin::NewStub(
        grpc::CreateChannel(listener.listen, grpc::InsecureChannelCredentials()));
  }
  void Stop() {
    admin_server_->Shutdown();
    sessions_->Drain(absl::ZeroDuration());
    server_->Shutdown(MonotonicTime::Now() + absl::Seconds(5));
    admin_server_.reset();
    operations_.reset();
    told_ = nullptr;
    server_.reset();
    sessions_.reset();
    models_.reset();
    commits_.reset();
    store_.reset();
  }

  // ------------------------------------------------------------ calls of clients

  static std::string IdOf(uint64_t number) { return absl::StrFormat("%032x", number); }
  grpc::Status TryOpen(const std::string& model, const std::string& id, v1::Session* session,
                       v1::Durability durability = v1::DURABILITY_UNSPECIFIED) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_model(model);
    request.set_session_id(id);
    request.set_durability(durability);
    return stub_->OpenSession(&context, request, session);
  }
  v1::Session Open(const std::string& model, const std::string& id = "") {
    v1::Session session;
    const grpc::Status status = TryOpen(model, id, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session;
  }
  v1::Session Get(const std::string& id) {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    v1::Session session;
    request.set_session_id(id);
    const grpc::Status status = stub_->GetSession(&context, request, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session;
  }
  grpc::Status Generate(const std::string& id, uint64_t max_tokens) {
    grpc::ClientContext context;
    v1::GenerateRequest request;
    request.set_session_id(id);
    request.mutable_input()->set_text("hello");
    request.set_max_tokens(max_tokens);
    request.mutable_stop()->set_ignore_eos(true);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
  grpc::Status TryFork(const std::string& id, const std::string& model, const std::string& new_id,
                       v1::Session* fork) {
    grpc::ClientContext context;
    v1::ForkSessionRequest request;
    request.set_session_id(id);
    request.set_model(model);
    request.set_new_session_id(new_id);
    return stub_->ForkSession(&context, request, fork);
  }
  v1::Session Fork(const std::string& id, const std::string& model = "",
                   const std::string& new_id = "") {
    v1::Session session;
    const grpc::Status status = TryFork(id, model, new_id, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session;
  }
  grpc::Status Close(const std::string& id) {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    v1::CloseSessionResponse response;
    request.set_session_id(id);
    return stub_->CloseSession(&context, request, &response);
  }
  // All pages of the list, of at most two sessions each.
  std::vector<std::string> List(const std::string& model, const std::string& alias) {
    std::vector<std::string> ids;
    v1::ListSessionsRequest request;
    v1::ListSessionsResponse page;
    request.set_model(model);
    request.set_alias(alias);
    request.set_page_size(2);
    do {
      grpc::ClientContext context;
      const grpc::Status status = stub_->ListSessions(&context, request, &page);
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_LE(page.sessions_size(), 2);
      for (const v1::Session& session : page.sessions()) ids.push_back(session.session_id());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return ids;
  }
  bool IsServing(const std::string& name) {
    const auto health = grpc::health::v1::Health::NewStub(channel_);
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    request.set_service(name);
    const grpc::Status status = health->Check(&context, request, &response);
    return status.ok() && response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
  }

  // ------------------------------------------------------------ calls of operators

  using Arms = std::vector<std::pair<std::string, uint32_t>>;
  grpc::Status Set(const std::string& name, const Arms& arms,
                   admin::v1::SetAliasResponse* response = nullptr) {
    grpc::ClientContext context;
    admin::v1::SetAliasRequest request;
    admin::v1::SetAliasResponse unused;
    request.mutable_alias()->set_name(name);
    for (const auto& [model, weight] : arms) {
      admin::v1::AliasArm* const arm = request.mutable_alias()->add_arms();
      arm->set_model(model);
      arm->set_weight(weight);
    }
    return admin_->SetAlias(&context, request, response == nullptr ? &unused : response);
  }
  grpc::Status Delete(const std::string& name) {
    grpc::ClientContext context;
    admin::v1::DeleteAliasRequest request;
    admin::v1::DeleteAliasResponse response;
    request.set_name(name);
    return admin_->DeleteAlias(&context, request, &response);
  }
  // "NAME ARM=WEIGHT ... [changed]"
  std::vector<std::string> Aliases() {
    grpc::ClientContext context;
    admin::v1::ListAliasesResponse response;
    EXPECT_TRUE(admin_->ListAliases(&context, {}, &response).ok());
    std::vector<std::string> aliases;
    for (const admin::v1::Alias& alias : response.aliases()) {
      std::string& text = aliases.emplace_back(alias.name());
      for (const admin::v1::AliasArm& arm : alias.arms()) {
        absl::StrAppend(&text, " ", arm.model(), "=", arm.weight());
        if (arm.state() != admin::v1::MODEL_STATE_READY) text += "?";
      }
      if (alias.changed_at_run_time()) text += " changed";
    }
    return aliases;
  }
  grpc::Status Load(const std::string& name) {
    grpc::ClientContext context;
    admin::v1::LoadModelRequest request;
    request.mutable_model()->set_name(name);
    request.mutable_model()->set_directory("tiny");
    const auto reader = admin_->LoadModel(&context, request);
    admin::v1::LoadModelResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
  grpc::Status Unload(const std::string& name) {
    grpc::ClientContext context;
    admin::v1::UnloadModelRequest request;
    admin::v1::UnloadModelResponse response;
    request.set_name(name);
    return admin_->UnloadModel(&context, request, &response);
  }

  double Metric(const std::string& name, const std::map<std::string, std::string>& labels) {
    return MetricValue(*minimal_.registry(), "longstream_alias_" + name, labels);
  }
  bool HasMetricsOf(const std::string& arm) {
    for (const prometheus::MetricFamily& family : minimal_.registry()->Collect()) {
      for (const prometheus::ClientMetric& metric : family.metric) {
        for (const auto& label : metric.label) {
          if (label.name == "arm" && label.value == arm) return true;
        }
      }
    }
    return false;
  }

  // Measures nothing, so that tests put costs into it.
  static std::shared_ptr<ArmBook> StoppedBook() {
    auto book = std::make_shared<ArmBook>();
    book->Stop();
    return book;
  }

  const std::vector<AliasConfig> configured_ = {{"chat", {{"a", 90}, {"b", 10}}}};
  const TemporaryDirectory roots_;
  const TemporaryDirectory sockets_;
  const TemporaryDirectory store_directory_;
  MinimalModel minimal_;
  const std::shared_ptr<ArmBook> book_ = StoppedBook();
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
  std::atomic<GrpcServer*> told_{nullptr};  // of the states of models
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<SessionManager> sessions_;
  std::unique_ptr<ModelAdmin> operations_;
  std::unique_ptr<AdminServer> admin_server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
  std::unique_ptr<admin::v1::Admin::Stub> admin_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_ADMIN_SERVER_ALIASES_FIXTURE_H_
