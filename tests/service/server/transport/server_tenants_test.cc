// Tenants over the wire: each caller's token names its tenant.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/security/guard.h"
#include "tests/service/security/token_row.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transfer/server_files_fixture.h"
#include "tests/service/server/transport/retry_seconds.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr char kId[] = "00000000000000010000000000000002";
constexpr char kOwn[] = "00000000000000050000000000000006";
constexpr char kUnknown[] = "00000000000000030000000000000004";

Credentials TokensOf(const std::vector<std::string>& tenants) {
  std::string rows;
  for (const std::string& tenant : tenants) {
    rows += TokenRow(tenant, "role=client tenant=" + tenant);
  }
  rows += TokenRow("nobody", "role=client") + TokenRow("op", "role=operator");
  return *Credentials::Parse(rows, "f");
}

using SessionCalls =
    std::vector<std::pair<std::string, std::function<grpc::Status(const std::string&)>>>;

class ServerTenantsTest : private OwnedStore, public ServerTest {
 protected:
  explicit ServerTenantsTest(const TenantQuotas& quotas = {.sessions = 2,
                                                           .tokens_per_minute = 600,
                                                           .turns = 1})
      : OwnedStore({}, /*only_sealed=*/false),
        ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens, "", 0,
                   Options(absl::Minutes(5)), 0,
                   {{.name = "a", .quotas = quotas}, {.name = "b", .quotas = {}}}) {
    auto started =
        GrpcServer::Start({.listen = "127.0.0.1:0", .guard = &guard_}, &models(), &sessions());
    EXPECT_TRUE(started.ok()) << started.status();
    guarded_ = *std::move(started);
    stub_ = v1::Longstream::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", guarded_->port()), grpc::InsecureChannelCredentials()));
  }
  ~ServerTenantsTest() override { guarded_->Shutdown(MonotonicTime::Now() + absl::Seconds(5)); }

  // The token of each tenant is its name.
  static void SetToken(const std::string& tenant, grpc::ClientContext* context) {
    context->AddMetadata("authorization", "Bearer " + tenant);
  }
  grpc::Status OpenAs(const std::string& tenant, const std::string& id) {
    grpc::ClientContext context;
    SetToken(tenant, &context);
    v1::OpenSessionRequest request;
    request.set_model("m");
    request.set_session_id(id);
    v1::Session session;
    return stub_->OpenSession(&context, request, &session);
  }
  grpc::Status GetAs(const std::string& tenant, const std::string& id, v1::Session* session) {
    grpc::ClientContext context;
    SetToken(tenant, &context);
    v1::GetSessionRequest request;
    request.set_session_id(id);
    return stub_->GetSession(&context, request, session);
  }
  grpc::Status GenerateAs(const std::string& tenant, const std::string& id, uint32_t max_tokens) {
    grpc::ClientContext context;
    SetToken(tenant, &context);
    v1::GenerateRequest request = Request(id);
    request.set_max_tokens(max_tokens);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
  SessionCalls CallsOfSessions();
  size_t ListAs(const std::string& tenant) {
    grpc::ClientContext context;
    SetToken(tenant, &context);
    v1::ListSessionsResponse response;
    EXPECT_TRUE(stub_->ListSessions(&context, {}, &response).ok());
    return static_cast<size_t>(response.sessions_size());
  }

  const Guard guard_{/*open_health=*/true, TokensOf({"a", "b", "unknown"}), {}};
  std::unique_ptr<GrpcServer> guarded_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

TEST_F(ServerTenantsTest, EachHasItsOwnSessions) {
  ASSERT_TRUE(OpenAs("a", kId).ok());
  ASSERT_TRUE(OpenAs("b", kId).ok());
  ASSERT_TRUE(GenerateAs("a", kId, 10).ok());
  v1::Session of_a, of_b;
  ASSERT_TRUE(GetAs("a", kId, &of_a).ok());
  ASSERT_TRUE(GetAs("b", kId, &of_b).ok());
  EXPECT_GT(of_a.position(), 10u);
  EXPECT_EQ(of_b.position(), 0u);
  EXPECT_EQ(ListAs("a"), 1u);
  EXPECT_EQ(ListAs("b"), 1u);
}

// The methods whose requests name an existing session. OpenSession and ImportSession name a new
// one.
std::set<std::string> MethodsOfSessions() {
  std::set<std::string> names;
  const auto* const service =
      v1::OpenSessionRequest::descriptor()->file()->FindServiceByName("Longstream");
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* const method = service->method(i);
    if (method->input_type()->FindFieldByName("session_id") != nullptr) {
      names.insert(method->name());
    }
  }
  names.erase("OpenSession");
  names.erase("ImportSession");
  return names;
}

// Every method that names a session, called by the tenant b with a session id. CloseSession is
// last.
SessionCalls ServerTenantsTest::CallsOfSessions() {
  const auto unary = [this](auto request, auto response, auto method) {
    return [=, this](const std::string& id) {
      grpc::ClientContext context;
      SetToken("b", &context);
      auto sent = request;
      auto received = response;
      sent.set_session_id(id);
      return (stub_.get()->*method)(&context, sent, &received);
    };
  };
  v1::RewindSessionRequest rewind;
  rewind.set_position(0);
  v1::CancelTurnRequest cancel;
  cancel.set_turn_id(kUnknown);
  v1::PutNotesRequest notes;
  notes.add_notes()->set_key("key");
  using Stub = v1::Longstream::Stub;
  return {
      {"GetSession", unary(v1::GetSessionRequest(), v1::Session(), &Stub::GetSession)},
      {"ForkSession", unary(v1::ForkSessionRequest(), v1::Session(), &Stub::ForkSession)},
      {"RewindSession", unary(rewind, v1::Session(), &Stub::RewindSession)},
      {"CancelTurn", unary(cancel, v1::Turn(), &Stub::CancelTurn)},
      {"ListTurns", unary(v1::ListTurnsRequest(), v1::ListTurnsResponse(), &Stub::ListTurns)},
      {"ReadHistory",
       unary(v1::ReadHistoryRequest(), v1::ReadHistoryResponse(), &Stub::ReadHistory)},
      {"PutNotes", unary(notes, v1::PutNotesResponse(), &Stub::PutNotes)},
      {"Generate", [this](const std::string& id) { return GenerateAs("b", id, 3); }},
      {"Compare",
       [this](const std::string& id) {
         grpc::ClientContext context;
         SetToken("b", &context);
         v1::CompareRequest request;
         for (int arm = 0; arm < 2; ++arm) request.add_arms()->set_model("m");
         request.set_session_id(id);
         request.mutable_input()->set_text("x");
         request.set_max_tokens(3);
         const auto reader = stub_->Compare(&context, request);
         v1::CompareResponse response;
         while (reader->Read(&response)) {
         }
         return reader->Finish();
       }},
      {"Append",
       [this](const std::string& id) {
         grpc::ClientContext context;
         SetToken("b", &context);
         v1::AppendResponse response;
         v1::AppendRequest request;
         request.set_session_id(id);
         request.mutable_input()->set_text("x");
         const auto writer = stub_->Append(&context, &response);
         writer->Write(request);
         writer->WritesDone();
         return writer->Finish();
       }},
      {"ExportSession",
       [this](const std::string& id) {
         grpc::ClientContext context;
         SetToken("b", &context);
         v1::ExportSessionRequest request;
         request.set_session_id(id);
         const auto reader = stub_->ExportSession(&context, request);
         v1::ExportSessionResponse response;
         size_t bytes = 0;
         while (reader->Read(&response)) bytes += response.data().size();
         grpc::Status status = reader->Finish();
         EXPECT_EQ(bytes > 0, status.ok());
         return status;
       }},
      {"CloseSession",
       unary(v1::CloseSessionRequest(), v1::CloseSessionResponse(), &Stub::CloseSession)},
  };
}

TEST_F(ServerTenantsTest, AnotherTenantsSessionIsUnknown) {
  ASSERT_TRUE(OpenAs("a", kId).ok());
  ASSERT_TRUE(GenerateAs("a", kId, 10).ok());
  ASSERT_TRUE(OpenAs("b", kOwn).ok());
  v1::Session before;
  ASSERT_TRUE(GetAs("a", kId, &before).ok());
  const SessionCalls calls = CallsOfSessions();
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const grpc::Status foreign = call(kId);
    const grpc::Status unknown = call(kUnknown);
    EXPECT_EQ(foreign.error_code(), grpc::StatusCode::NOT_FOUND) << foreign.error_message();
    EXPECT_EQ(unknown.error_code(), foreign.error_code());
    std::string expected = unknown.error_message();
    const size_t at = expected.find(kUnknown);
    ASSERT_NE(at, std::string::npos) << expected;
    EXPECT_EQ(foreign.error_message(), expected.replace(at, sizeof(kUnknown) - 1, kId));
    EXPECT_EQ(foreign.error_details(), "");
    EXPECT_EQ(unknown.error_details(), "");
  }
  EXPECT_EQ(ListAs("b"), 1u);
  EXPECT_EQ(ListAs("a"), 1u);
  v1::Session session;
  EXPECT_TRUE(GetAs("a", kId, &session).ok());
  EXPECT_EQ(session.position(), before.position());
  EXPECT_EQ(session.version(), before.version());
  EXPECT_EQ(session.head_turn_id(), before.head_turn_id());
  // The same calls reach the caller's own session.
  std::set<std::string> names;
  for (const auto& [name, call] : calls) {
    names.insert(name);
    const grpc::Status own = call(kOwn);
    if (name == "CancelTurn") continue;  // it names a turn that never was
    EXPECT_TRUE(own.ok()) << name << ": " << own.error_message();
  }
  EXPECT_EQ(names, MethodsOfSessions());
}

TEST_F(ServerTenantsTest, CredentialsNeedAConfiguredTenant) {
  for (const char* token : {"unknown", "nobody"}) {
    SCOPED_TRACE(token);
    EXPECT_EQ(OpenAs(token, kId).error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(GenerateAs(token, kId, 3).error_code(), grpc::StatusCode::PERMISSION_DENIED);
    v1::Session session;
    EXPECT_EQ(GetAs(token, kId, &session).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  grpc::ClientContext context;
  SetToken("op", &context);
  v1::ListModelsResponse models;
  EXPECT_TRUE(stub_->ListModels(&context, {}, &models).ok()) << "an operator has no tenant";
}

TEST_F(ServerTenantsTest, RefusalsSayWhenTheCallMaySucceed) {
  ASSERT_TRUE(OpenAs("a", kId).ok());
  ASSERT_TRUE(OpenAs("a", kUnknown).ok());
  const grpc::Status sessions = OpenAs("a", "");
  EXPECT_EQ(sessions.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(sessions.error_message(), HasSubstr("quota sessions: the tenant has 2 open"));
  EXPECT_EQ(RetrySeconds(sessions), std::nullopt) << "waiting does not help";
  EXPECT_TRUE(OpenAs("b", "").ok());

  ASSERT_TRUE(GenerateAs("a", kId, 500).ok());
  const grpc::Status tokens = GenerateAs("a", kId, 500);
  EXPECT_EQ(tokens.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(tokens.error_message(), HasSubstr("quota tokens_per_minute: "));
  ASSERT_TRUE(RetrySeconds(tokens).has_value());
  EXPECT_GT(*RetrySeconds(tokens), 0.0);
  EXPECT_LT(*RetrySeconds(tokens), 60.0);
}

// The quotas have room for the turn, which starts first, and none for its twin.
TEST_F(ServerTenantsTest, ATwinCountsAsASecondTurn) {
  ASSERT_TRUE(OpenAs("a", kId).ok());
  grpc::ClientContext context;
  SetToken("a", &context);
  v1::GenerateRequest request = Request(kId);
  request.set_max_tokens(500);
  request.set_twin_model("m");
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  v1::Finish finish;
  while (reader->Read(&response)) {
    if (response.has_finish()) finish = response.finish();
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(finish.usage().generated_tokens(), 500u);
  EXPECT_EQ(finish.twin().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(finish.twin().error(), HasSubstr("quota "));
  EXPECT_EQ(finish.twin().rows(), 0u);
}

TEST_F(ServerTenantsTest, TurnsAtOnceAreLimited) {
  ASSERT_TRUE(OpenAs("a", kId).ok());
  ASSERT_TRUE(OpenAs("a", kUnknown).ok());
  grpc::ClientContext context;
  SetToken("a", &context);
  v1::AppendResponse response;
  const auto writer = stub_->Append(&context, &response);  // the turn runs until its last message
  v1::AppendRequest request;
  request.set_session_id(kId);
  request.mutable_input()->set_text("hello");
  ASSERT_TRUE(writer->Write(request));
  const std::shared_ptr<Tenant> tenant = *models().tenants().Find("a");
  while (tenant->use().turns == 0) absl::SleepFor(absl::Milliseconds(1));  // the message is read
  const grpc::Status second = GenerateAs("a", kUnknown, 1);
  EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(second.error_message(), HasSubstr("quota turns: the tenant has 1 turns"));
  EXPECT_EQ(RetrySeconds(second), 1.0);
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(GenerateAs("a", kUnknown, 1).ok());
}

class AppendQuotaTest : public ServerTenantsTest {
 protected:
  AppendQuotaTest() : ServerTenantsTest({.tokens_per_minute = 600}) {}

  // Appends `pieces` messages of 100 tokens each.
  grpc::Status AppendAs(const std::string& tenant, const std::string& id, int pieces) {
    grpc::ClientContext context;
    SetToken(tenant, &context);
    v1::AppendResponse response;
    const auto writer = stub_->Append(&context, &response);
    v1::AppendRequest request;
    request.set_session_id(id);
    for (int i = 0; i < pieces; ++i) {
      request.mutable_input()->set_text(std::string(100, 'a'));
      if (!writer->Write(request)) break;
      request.clear_session_id();
    }
    writer->WritesDone();
    return writer->Finish();
  }
};

TEST_F(AppendQuotaTest, AnAppendNeedsTheTokensOfItsInput) {
  ASSERT_TRUE(OpenAs("a", kId).ok());
  const grpc::Status many = AppendAs("a", kId, 30);
  EXPECT_EQ(many.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << many.error_message();
  EXPECT_THAT(many.error_message(), HasSubstr("quota tokens_per_minute: the turn may take "));
  ASSERT_TRUE(RetrySeconds(many).has_value());
  EXPECT_GT(*RetrySeconds(many), 0.0);
  v1::Session session;
  ASSERT_TRUE(GetAs("a", kId, &session).ok());
  EXPECT_EQ(session.position(), 0u) << "nothing of it is appended";
}

TEST_F(AppendQuotaTest, AppendsAtOnceCannotAllGetIn) {
  std::vector<std::string> ids;
  for (int i = 0; i < 16; ++i) {
    ids.push_back(absl::StrCat("000000000000000100000000000000", 10 + i));
    ASSERT_TRUE(OpenAs("a", ids.back()).ok());
  }
  std::atomic<int> succeeded = 0;
  std::vector<std::thread> callers;
  const absl::Time begin = absl::Now();
  for (const std::string& id : ids) {
    callers.emplace_back([&, id] {
      if (AppendAs("a", id, 1).ok()) ++succeeded;
    });
  }
  for (std::thread& caller : callers) caller.join();
  // The bucket has 600 tokens, and gets 10 more each second.
  EXPECT_GE(succeeded, 1);
  EXPECT_LE(succeeded, 6 + static_cast<int>(absl::ToInt64Seconds(absl::Now() - begin) / 10) + 1);
}

}  // namespace
}  // namespace longstream
