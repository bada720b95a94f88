// The operators' listener: who reaches it, and what its calls do.
#include "service/server/admin/admin_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "longstream/admin/v1/admin.grpc.pb.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/connections/descriptor.h"
#include "service/security/access_table.h"
#include "service/server/grpc_server.h"
#include "service/serving/models/model_admin.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/security/token_row.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A server without models, and the operators' listener on a Unix socket. The model directory has
// "tiny" and "other".
class AdminServerTest : public testing::Test {
 protected:
  AdminServerTest() {
    for (const char* name : {"tiny", "other"}) {
      std::filesystem::copy(minimal_.directory(), roots_.path() / name,
                            std::filesystem::copy_options::recursive);
    }
    auto server = GrpcServer::Start({.listen = "127.0.0.1:0"}, &models_, &sessions_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Longstream::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials()));
    AdminServer::Options options;
    options.listen = address_;
    options.on_operator_call = [this](const Caller& caller, std::string_view method,
                                      std::string_view request_id, const absl::Status& status) {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(request_id.empty());
      audit_.push_back(caller.name + " " + std::string(method) + " " + status.ToString());
    };
    auto admin = AdminServer::Start(options, &operations_);
    EXPECT_TRUE(admin.ok()) << admin.status();
    admin_server_ = *std::move(admin);
    admin_ = admin::v1::Admin::NewStub(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  }
  ~AdminServerTest() override {
    admin_server_->Shutdown();
    sessions_.Drain(absl::ZeroDuration());
    server_->Shutdown(MonotonicTime::Now() + absl::Seconds(5));
  }

  struct Loaded {
    grpc::Status status;
    std::vector<admin::v1::ModelState> states;
    admin::v1::Model last;
  };
  template <typename Response>
  static Loaded ReadAll(grpc::ClientReader<Response>& reader) {
    Loaded loaded;
    Response response;
    while (reader.Read(&response)) {
      loaded.states.push_back(response.model().state());
      loaded.last = response.model();
    }
    loaded.status = reader.Finish();
    return loaded;
  }
  Loaded Load(const std::string& name, const std::string& directory = "tiny") {
    grpc::ClientContext context;
    admin::v1::LoadModelRequest request;
    request.mutable_model()->set_name(name);
    request.mutable_model()->set_directory(directory);
    return ReadAll(*admin_->LoadModel(&context, request));
  }
  Loaded Swap(const std::string& name, const std::string& directory) {
    grpc::ClientContext context;
    admin::v1::SwapModelRequest request;
    request.mutable_model()->set_name(name);
    request.mutable_model()->set_directory(directory);
    return ReadAll(*admin_->SwapModel(&context, request));
  }
  grpc::Status Unload(const std::string& name) {
    grpc::ClientContext context;
    admin::v1::UnloadModelRequest request;
    admin::v1::UnloadModelResponse response;
    request.set_name(name);
    return admin_->UnloadModel(&context, request, &response);
  }
  admin::v1::ListModelsResponse List() {
    grpc::ClientContext context;
    admin::v1::ListModelsResponse response;
    EXPECT_TRUE(admin_->ListModels(&context, {}, &response).ok());
    return response;
  }

  grpc::Status Open(const std::string& model, std::string* id) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    v1::Session session;
    request.set_model(model);
    grpc::Status status = stub_->OpenSession(&context, request, &session);
    *id = session.session_id();
    return status;
  }
  grpc::Status Generate(const std::string& id, std::vector<int32_t>* tokens) {
    grpc::ClientContext context;
    v1::GenerateRequest request;
    request.set_session_id(id);
    request.mutable_input()->set_text("hello");
    request.set_max_tokens(100);
    request.mutable_sampling()->set_temperature(1.0f);
    request.mutable_sampling()->set_seed(1);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      tokens->insert(tokens->end(), response.delta().token_ids().begin(),
                     response.delta().token_ids().end());
    }
    return reader->Finish();
  }
  grpc::Status Close(const std::string& id) {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    v1::CloseSessionResponse response;
    request.set_session_id(id);
    return stub_->CloseSession(&context, request, &response);
  }
  std::vector<std::string> Audit() {
    absl::MutexLock lock(&mutex_);
    return audit_;
  }

  const TemporaryDirectory roots_;
  const TemporaryDirectory sockets_;
  const std::string socket_ = sockets_.string() + "/admin.sock";
  const std::string address_ = "unix:" + socket_;
  absl::Mutex mutex_;
  std::vector<std::string> audit_ ABSL_GUARDED_BY(mutex_);
  MinimalModel minimal_;
  ModelRegistry models_{
      {minimal_.plugins(), minimal_.host(), minimal_.registry(), {}}, {}, nullptr};
  SessionManager sessions_{&models_, {}};
  ModelAdmin operations_{&models_, &sessions_, {{roots_.string()}}};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
  std::unique_ptr<AdminServer> admin_server_;
  std::unique_ptr<admin::v1::Admin::Stub> admin_;
};

TEST_F(AdminServerTest, LoadsListsAndUnloads) {
  const Loaded loaded = Load("a");
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.error_message();
  EXPECT_THAT(loaded.states,
              ElementsAre(admin::v1::MODEL_STATE_LOADING, admin::v1::MODEL_STATE_WARMING,
                          admin::v1::MODEL_STATE_READY));
  EXPECT_EQ(loaded.last.version(), "1");
  std::string session;
  ASSERT_TRUE(Open("a", &session).ok());
  const admin::v1::ListModelsResponse list = List();
  ASSERT_EQ(list.models_size(), 1);
  EXPECT_EQ(list.models(0).state(), admin::v1::MODEL_STATE_READY);
  EXPECT_EQ(list.models(0).backend(), "minimal");
  EXPECT_EQ(list.models(0).sessions(), 1u);
  EXPECT_TRUE(std::filesystem::equivalent(list.models(0).directory(), roots_.path() / "tiny"));
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_EQ(List().models_size(), 0);
  EXPECT_EQ(Unload("a").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Load("a", "../tiny").status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(AdminServerTest, EveryCallIsAudited) {
  List();
  Load("a/b");
  EXPECT_THAT(Audit(), ElementsAre("unix-socket /longstream.admin.v1.Admin/ListModels OK",
                                   "unix-socket /longstream.admin.v1.Admin/LoadModel OK"));
}

TEST_F(AdminServerTest, OnlyTheUserReachesTheSocket) {
  struct stat file {};
  ASSERT_EQ(stat(socket_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  AdminServer::Options second;
  second.listen = address_;
  const auto refused = AdminServer::Start(second, &operations_);
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_TRUE(std::filesystem::exists(socket_)) << "the first server still has its socket";
  admin_server_->Shutdown();
  EXPECT_FALSE(std::filesystem::exists(socket_));
  // Another server has the name now; the end of the first one leaves it alone.
  const auto successor = AdminServer::Start(second, &operations_);
  ASSERT_TRUE(successor.ok()) << successor.status();
  admin_server_->Shutdown();
  EXPECT_TRUE(std::filesystem::exists(socket_));
}

// Otherwise another server would take the name while this one ends, and lose its file.
TEST_F(AdminServerTest, TheFileOfASocketGoesBeforeTheSocketIsDeaf) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  std::atomic<bool> is_deaf{false};
  std::thread client([&] {
    while (std::filesystem::exists(socket_)) {
      const Descriptor end(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const int connected =
          connect(end.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      if (connected != 0 && errno == ECONNREFUSED) is_deaf = std::filesystem::exists(socket_);
      if (is_deaf) return;
      absl::SleepFor(absl::Microseconds(100));
    }
  });
  admin_server_->Shutdown();
  client.join();
  EXPECT_FALSE(is_deaf);
}

TEST_F(AdminServerTest, AnotherAddressNeedsAnOperatorsToken) {
  AdminServer::Options options;
  options.listen = "127.0.0.1:0";
  EXPECT_TRUE(absl::IsInvalidArgument(AdminServer::Start(options, &operations_).status()));
  const Guard guard(
      /*open_health=*/true,
      *Credentials::Parse(TokenRow("client", "role=client") + TokenRow("operator", "role=operator"),
                          "f"),
      {});
  options.guard = &guard;
  const auto guarded = AdminServer::Start(options, &operations_);
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  const auto stub = admin::v1::Admin::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string((*guarded)->port()), grpc::InsecureChannelCredentials()));
  const auto call = [&](const std::string& token) {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    admin::v1::ListModelsResponse response;
    return stub->ListModels(&context, {}, &response).error_code();
  };
  EXPECT_EQ(call(""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(call("client"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(call("operator"), grpc::StatusCode::OK);
}

TEST_F(AdminServerTest, OnlyOperatorsHaveItsMethods) {
  const AccessTable table(/*open_health=*/true);
  std::vector<std::string> rows;
  for (const std::string_view row : AccessTable::Methods()) {
    if (row.starts_with("/longstream.admin.")) rows.emplace_back(row);
  }
  EXPECT_THAT(admin_server_->methods(), testing::UnorderedElementsAreArray(rows));
  EXPECT_EQ(rows.size(), 7u);
  for (const std::string& method : admin_server_->methods()) {
    EXPECT_EQ(table.Find(method), AccessTable::Answer::kRoles) << method;
    EXPECT_TRUE(table.Allows(method, Role::kOperator)) << method;
    EXPECT_FALSE(table.Allows(method, Role::kClient)) << method;
    EXPECT_FALSE(table.Allows(method, Role::kPeer)) << method;
  }
}

TEST_F(AdminServerTest, EightStreamsDoNotNoticeASwap) {
  ASSERT_TRUE(Load("a").status.ok());
  std::string session;
  std::vector<int32_t> expected;
  ASSERT_TRUE(Open("a", &session).ok());
  ASSERT_TRUE(Generate(session, &expected).ok());
  ASSERT_EQ(expected.size(), 100u);
  ASSERT_TRUE(Close(session).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  std::vector<std::thread> streams;
  for (int i = 0; i < 8; ++i) {
    streams.emplace_back([&] {
      while (!stop) {
        std::string id;
        std::vector<int32_t> tokens;
        EXPECT_TRUE(Open("a", &id).ok());
        const grpc::Status status = Generate(id, &tokens);
        EXPECT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(tokens, expected);
        EXPECT_TRUE(Close(id).ok());
        ++turns;
      }
    });
  }
  for (const char* directory : {"other", "tiny"}) {
    const int before = turns;
    EXPECT_TRUE(WaitUntil([&] { return turns > before + 8; }));
    const Loaded swapped = Swap("a", directory);
    EXPECT_TRUE(swapped.status.ok()) << swapped.status.error_message();
    EXPECT_EQ(swapped.last.state(), admin::v1::MODEL_STATE_READY);
  }
  stop = true;
  for (std::thread& stream : streams) stream.join();
  EXPECT_TRUE(WaitUntil([&] {
    const admin::v1::ListModelsResponse list = List();
    return list.models_size() == 1 && list.models(0).version() == "3";
  }));
}

TEST_F(AdminServerTest, AnOperationGoesOnWithoutItsCall) {
  ASSERT_TRUE(Load("a").status.ok());
  std::string session;
  ASSERT_TRUE(Open("a", &session).ok());
  // The turn's client reads nothing, so the turn does not end.
  grpc::ClientContext turn;
  v1::GenerateRequest request;
  request.set_session_id(session);
  request.mutable_input()->set_text("hello");
  const auto reader = stub_->Generate(&turn, request);
  EXPECT_TRUE(WaitUntil([&] {
    const admin::v1::ListModelsResponse list = List();
    return list.models_size() == 1 && list.models(0).running_turns() == 1;
  }));
  grpc::ClientContext context;
  admin::v1::UnloadModelRequest unload;
  admin::v1::UnloadModelResponse response;
  unload.set_name("a");
  std::thread caller([&] {
    EXPECT_EQ(admin_->UnloadModel(&context, unload, &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(WaitUntil([&] {
    const admin::v1::ListModelsResponse list = List();
    return list.models_size() == 1 && list.models(0).state() == admin::v1::MODEL_STATE_DRAINING;
  }));
  context.TryCancel();
  caller.join();
  turn.TryCancel();
  EXPECT_TRUE(WaitUntil([&] { return List().models_size() == 0; }));
}

}  // namespace
}  // namespace longstream
