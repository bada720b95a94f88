// Every method of every service, called with every kind of credential.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/security/access_table.h"
#include "service/security/guard.h"
#include "service/security/token.h"
#include "tests/service/security/test_authority.h"
#include "tests/service/security/tls_client.h"
#include "tests/service/security/token_row.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/server/transport/reflected_methods.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

Credentials TestCredentials() {
  return *Credentials::Parse(
      TokenRow("client", "role=client") + TokenRow("operator", "role=operator") +
          TokenRow("peer", "role=peer") +
          TokenRow("expired", "role=client expires=2001-01-01T00:00:00Z") +
          TokenRow("expired-operator", "role=operator expires=2001-01-01T00:00:00Z") +
          "certificate name=cc role=client common_name=client\n"
          "certificate name=oc role=operator dns=operator\n"
          "certificate name=pc role=peer uri=spiffe://longstream/peer\n"
          "certificate name=ec role=client common_name=expired expires=2001-01-01T00:00:00Z\n",
      "f");
}

// The roles that may call a method. Written apart from the server's table.
std::set<Role> RolesOf(const std::string& method) {
  if (method.starts_with("/grpc.health.v1.Health/")) {
    return {Role::kClient, Role::kOperator, Role::kPeer};
  }
  if (method == kReflection) return {Role::kOperator};
  if (method.ends_with("/ListModels") || method.ends_with("/GetModel")) {
    return {Role::kClient, Role::kOperator};
  }
  return {Role::kClient};
}

// How a client proves who it is.
struct Proof {
  std::string name;
  std::vector<std::string> authorization;
  std::optional<Role> role;  // empty: it proves nothing
};

const std::vector<Proof>& TokenProofs() {
  static const auto* const proofs = new std::vector<Proof>{
      {"nothing", {}, {}},
      {"an unknown token", {"Bearer wrong"}, {}},
      {"an expired token", {"Bearer expired"}, {}},
      {"an expired token of an operator", {"Bearer expired-operator"}, {}},
      {"no scheme", {"client"}, {}},
      {"another scheme", {"Basic client"}, {}},
      {"an empty header", {""}, {}},
      {"an empty token", {"Bearer "}, {}},
      {"a long token", {"Bearer " + std::string(4000, 'a')}, {}},
      {"two tokens", {"Bearer client", "Bearer operator"}, {}},
      {"a digest", {"Bearer " + ToHex(DigestOf("client"))}, {}},
      {"a client's token", {"Bearer client"}, Role::kClient},
      {"a peer's token", {"Bearer peer"}, Role::kPeer},
      {"an operator's token", {"bearer operator"}, Role::kOperator},
  };
  return *proofs;
}

class AccessTest : public ServerTest {
 protected:
  void StartGuarded(GrpcServer::Options options = {}) {
    options.listen = "127.0.0.1:0";
    options.guard = &guard_;
    auto started = GrpcServer::Start(options, &models(), &sessions());
    ASSERT_TRUE(started.ok()) << started.status();
    guarded_ = *std::move(started);
    session_ = Open();
  }
  void StartWithTls(ClientCertificates clients,
                    absl::Duration max_connection_age = absl::Hours(1)) {
    const TestCertificate own = IssueForServer(&authority_);
    certificates_ = std::make_shared<CurrentCertificates>(
        Certificates{own.certificate, own.key, authority_.certificate(), absl::InfiniteFuture()});
    StartGuarded({.certificates = certificates_,
                  .client_certificates = clients,
                  .max_connection_age = max_connection_age});
  }
  ~AccessTest() override {
    if (guarded_ != nullptr) guarded_->Shutdown(MonotonicTime::Now() + absl::Seconds(5));
  }

  std::shared_ptr<grpc::Channel> ChannelWith(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(guarded_->port()), credentials);
  }
  std::shared_ptr<grpc::Channel> PlainChannel() {
    return ChannelWith(grpc::InsecureChannelCredentials());
  }
  // Without a certificate of the client if `own` is empty.
  std::shared_ptr<grpc::Channel> TlsChannel(const TestCertificate& own = {}) {
    return ChannelWith(grpc::SslCredentials({authority_.certificate(), own.key, own.certificate}));
  }

  // A request that has an effect if the method is called.
  std::string EffectiveRequest(const std::string& method) const {
    v1::OpenSessionRequest open;
    open.set_model("m");
    if (method.ends_with("/OpenSession")) return open.SerializeAsString();
    v1::CloseSessionRequest close;  // the other requests have the session in the same field
    close.set_session_id(session_);
    if (method.ends_with("/Generate")) return Request(session_).SerializeAsString();
    v1::AppendRequest append;
    append.set_session_id(session_);
    append.mutable_input()->set_text("hello");
    if (method.ends_with("/Append")) return append.SerializeAsString();
    return method.starts_with("/longstream.") ? close.SerializeAsString() : std::string();
  }
  std::string StateOfSessions() {
    grpc::ClientContext context;
    v1::ListSessionsResponse sessions;
    EXPECT_TRUE(stub().ListSessions(&context, {}, &sessions).ok());
    return sessions.DebugString();
  }

  // Calls every method that must refuse this proof, then every other one.
  void CallAll(const std::shared_ptr<grpc::Channel>& channel, const Proof& proof) {
    const std::string before = StateOfSessions();
    std::vector<std::string> allowed;
    for (const std::string& method : guarded_->methods()) {
      if (proof.role.has_value() && RolesOf(method).contains(*proof.role)) {
        allowed.push_back(method);
        continue;
      }
      const RawAnswer answer = CallRaw(channel, method, {EffectiveRequest(method)},
                                       GRPC_COMPRESS_NONE, proof.authorization);
      SCOPED_TRACE(absl::StrCat(method, " with ", proof.name));
      EXPECT_EQ(answer.status.error_code(), proof.role.has_value()
                                                ? grpc::StatusCode::PERMISSION_DENIED
                                                : grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(answer.status.error_message(), proof.role.has_value()
                                                   ? "the call's credential does not allow this"
                                                   : "the call needs a valid credential");
      EXPECT_TRUE(answer.status.error_details().empty());
      EXPECT_TRUE(answer.messages.empty());
      // A request that cannot be decoded is refused for the same reason: it is not looked at.
      EXPECT_EQ(CallRaw(channel, method, {"\xff"}, GRPC_COMPRESS_NONE, proof.authorization)
                    .status.error_message(),
                answer.status.error_message());
    }
    EXPECT_EQ(StateOfSessions(), before) << proof.name;
    for (const std::string& method : allowed) ExpectAllowed(channel, method, proof);
  }
  // The call gets further than its credential. A malformed message ends it before it has an effect.
  static void ExpectAllowed(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method, const Proof& proof) {
    const RawAnswer answer =
        CallRaw(channel, method, {"\xff"}, GRPC_COMPRESS_NONE, proof.authorization);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << method << " with " << proof.name << ": " << answer.status.error_message();
  }

  TestAuthority authority_;
  Guard guard_{/*open_health=*/false, TestCredentials(), {}};
  std::shared_ptr<CurrentCertificates> certificates_;
  std::unique_ptr<GrpcServer> guarded_;
  std::string session_;
};

// gRPC has registered the methods that reflection shows and that have rows in the table.
TEST_F(AccessTest, TheTableHasExactlyTheMethodsOfTheServer) {
  StartGuarded();
  const std::vector<std::string> registered = guarded_->methods();
  const std::set<std::string> methods(registered.begin(), registered.end());
  EXPECT_EQ(methods.size(), registered.size());
  const ReflectedMethods shown(PlainChannel(), "Bearer operator");
  std::set<std::string> reflected;
  for (const auto* method : shown.all()) {
    reflected.insert(ReflectedMethods::PathOf(*method));
  }
  EXPECT_EQ(methods, reflected);
  std::vector<std::string_view> rows = AccessTable::Methods();
  // Other listeners have these (admin_server_test, peer_access_test).
  std::erase_if(rows, [](std::string_view row) {
    return row.starts_with("/longstream.admin.") || row.starts_with("/longstream.peer.");
  });
  EXPECT_EQ(methods, std::set<std::string>(rows.begin(), rows.end()));
}

TEST_F(AccessTest, EveryMethodWithEveryTokenInPlainText) {
  StartGuarded();
  for (const Proof& proof : TokenProofs()) CallAll(PlainChannel(), proof);
  EXPECT_EQ(ReflectedMethods(PlainChannel(), "Bearer operator").all().size(),
            guarded_->methods().size());
}

TEST_F(AccessTest, EveryMethodWithEveryTokenOverTls) {
  StartWithTls(ClientCertificates::kNone);
  for (const Proof& proof : TokenProofs()) CallAll(TlsChannel(), proof);
}

TEST_F(AccessTest, EveryMethodWithEveryCertificate) {
  StartWithTls(ClientCertificates::kOptional);
  struct Case {
    const char* common_name;
    const char* names;
    Proof proof;
  };
  const std::vector<Case> cases = {
      {"client", "", {"a client's certificate", {}, Role::kClient}},
      {"x", "DNS:operator", {"an operator's certificate", {}, Role::kOperator}},
      {"x", "URI:spiffe://longstream/peer", {"a peer's certificate", {}, Role::kPeer}},
      {"operator", "DNS:client", {"names of another kind", {}, {}}},
      {"stranger", "DNS:stranger", {"an unknown name", {}, {}}},
      {"expired", "", {"an expired row", {}, {}}},
      {"client", "", {"a certificate, and a wrong token", {"Bearer wrong"}, {}}},
      {"client", "", {"a token, which counts more", {"Bearer operator"}, Role::kOperator}},
  };
  for (const Case& one : cases) {
    CallAll(TlsChannel(authority_.Issue(one.common_name, one.names)), one.proof);
  }
  CallAll(TlsChannel(), {"no certificate", {}, {}});
  CallAll(TlsChannel(), {"no certificate, but a token", {"Bearer client"}, Role::kClient});
}

// Without configured tenants, all callers share the sessions, also if a credential names a tenant.
TEST_F(AccessTest, ATenantOfACredentialDoesNotCountWithoutTenants) {
  StartGuarded();
  guard_.SetCredentials(*Credentials::Parse(TokenRow("client", "role=client tenant=acme"), "f"));
  const RawAnswer answer = CallRaw(PlainChannel(), "/longstream.v1.Longstream/GetSession",
                                   {EffectiveRequest("/longstream.v1.Longstream/GetSession")},
                                   GRPC_COMPRESS_NONE, {"Bearer client"});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

// A call on a connection that is never made fails with UNAVAILABLE.
grpc::StatusCode CodeOfModels(const std::shared_ptr<grpc::Channel>& channel) {
  return CallRaw(channel, "/longstream.v1.Longstream/ListModels", {""}, GRPC_COMPRESS_NONE,
                 {"Bearer client"})
      .status.error_code();
}

TEST_F(AccessTest, OtherAuthoritiesAndPlainTextGetNoConnection) {
  StartWithTls(ClientCertificates::kRequired);
  TestAuthority stranger;
  EXPECT_EQ(CodeOfModels(TlsChannel(authority_.Issue("any", ""))), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOfModels(TlsChannel(stranger.Issue("client", ""))), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOfModels(TlsChannel(authority_.Issue("client", "", -10))),
            grpc::StatusCode::UNAVAILABLE)
      << "the certificate has expired";
  EXPECT_EQ(CodeOfModels(TlsChannel()), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOfModels(PlainChannel()), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(AccessTest, OldVersionsOfTlsGetNoConnection) {
  StartWithTls(ClientCertificates::kNone);
  const auto connects = [this](int version) {
    return TlsClient(guarded_->port(), authority_.certificate(), {}, version).Connect();
  };
  EXPECT_TRUE(connects(TLS1_3_VERSION));
  EXPECT_TRUE(connects(TLS1_2_VERSION));
  EXPECT_TRUE(
      LenientServerTakes(authority_.certificate(), IssueForServer(&authority_), TLS1_1_VERSION));
  EXPECT_FALSE(connects(TLS1_1_VERSION));
}

TEST_F(AccessTest, AnOptionalCertificateMustBeValidToo) {
  StartWithTls(ClientCertificates::kOptional);
  TestAuthority stranger;
  EXPECT_EQ(CodeOfModels(TlsChannel()), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOfModels(TlsChannel(stranger.Issue("client", ""))), grpc::StatusCode::UNAVAILABLE);
}

// A client's certificate ends its calls when it expires, also on a connection that is open.
TEST_F(AccessTest, AnOpenConnectionDoesNotOutliveItsCertificate) {
  StartWithTls(ClientCertificates::kRequired);
  // With a token, the certificate does not count.
  const auto code = [](const std::shared_ptr<grpc::Channel>& channel,
                       const std::vector<std::string>& authorization) {
    return CallRaw(channel, "/longstream.v1.Longstream/ListModels", {""}, GRPC_COMPRESS_NONE,
                   authorization)
        .status.error_code();
  };
  std::shared_ptr<grpc::Channel> channel;
  // On a busy machine, the handshake may take longer than a certificate that is valid for so long.
  for (const int seconds : {3, 10, 30, 100}) {
    channel = TlsChannel(authority_.Issue("client", "", seconds));
    if (code(channel, {}) == grpc::StatusCode::OK) break;
  }
  ASSERT_EQ(code(channel, {"Bearer client"}), grpc::StatusCode::OK);
  const absl::Time until = absl::Now() + absl::Seconds(120);
  grpc::StatusCode last = grpc::StatusCode::OK;
  while ((last = code(channel, {})) == grpc::StatusCode::OK && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_EQ(last, grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(channel, {"Bearer client"}), grpc::StatusCode::OK) << "the connection is open";
}

// A connection of an authority that was removed begins no calls when it is old enough. Its stream
// goes on to the end.
TEST_F(AccessTest, AConnectionOfARemovedAuthorityEndsByItsAge) {
  StartWithTls(ClientCertificates::kRequired, /*max_connection_age=*/absl::Milliseconds(300));
  const std::shared_ptr<grpc::Channel> channel = TlsChannel(authority_.Issue("client", ""));
  grpc::ClientContext context;
  v1::AppendResponse response;
  v1::AppendRequest request;
  request.set_session_id(session_);
  request.mutable_input()->set_text("hello");
  const auto stream = v1::Longstream::NewStub(channel)->Append(&context, &response);
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(WaitUntil([&] { return Get(session_).turn_running(); }));
  TestAuthority next;
  Certificates changed = *certificates_->Get();
  changed.client_ca = next.certificate();
  certificates_->Set(changed);
  EXPECT_TRUE(WaitUntil([&] { return CodeOfModels(channel) == grpc::StatusCode::UNAVAILABLE; }));
  EXPECT_EQ(CodeOfModels(TlsChannel(next.Issue("client", ""))), grpc::StatusCode::OK);
  EXPECT_TRUE(stream->Write(request));
  EXPECT_TRUE(stream->WritesDone());
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.position(), 10u);
}

// A connection keeps the certificates with which it began.
TEST_F(AccessTest, NewConnectionsGetNewCertificates) {
  StartWithTls(ClientCertificates::kNone);
  const std::shared_ptr<grpc::Channel> before = TlsChannel();
  EXPECT_EQ(CodeOfModels(before), grpc::StatusCode::OK);
  TestAuthority next;
  const TestCertificate own = IssueForServer(&next);
  certificates_->Set({own.certificate, own.key, "", absl::InfiniteFuture()});
  EXPECT_EQ(CodeOfModels(before), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOfModels(ChannelWith(grpc::SslCredentials({next.certificate(), "", ""}))),
            grpc::StatusCode::OK);
  grpc::ChannelArguments own_connection;
  own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  EXPECT_EQ(CodeOfModels(grpc::CreateCustomChannel(
                "127.0.0.1:" + std::to_string(guarded_->port()),
                grpc::SslCredentials({authority_.certificate(), "", ""}), own_connection)),
            grpc::StatusCode::UNAVAILABLE);
  // gRPC refuses this pair, and goes on with the one before.
  certificates_->Set({own.certificate, "no key", "", absl::InfiniteFuture()});
  EXPECT_EQ(CodeOfModels(grpc::CreateCustomChannel(
                "127.0.0.1:" + std::to_string(guarded_->port()),
                grpc::SslCredentials({next.certificate(), "", ""}), own_connection)),
            grpc::StatusCode::OK);
}

TEST_F(AccessTest, ChannelzCannotBeGuarded) {
  const auto refused = GrpcServer::Start(
      {.listen = "127.0.0.1:0", .channelz = true, .guard = &guard_}, &models(), &sessions());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  StartGuarded();
  for (const char* method : {"GetTopChannels", "GetServers", "GetServer", "GetServerSockets",
                             "GetChannel", "GetSubchannel", "GetSocket"}) {
    const RawAnswer answer =
        CallRaw(PlainChannel(), absl::StrCat("/grpc.channelz.v1.Channelz/", method), {""},
                GRPC_COMPRESS_NONE, {"Bearer operator"});
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
}

// A running call goes on when its token is removed; the next one is refused.
TEST_F(AccessTest, ARemovedTokenDoesNotEndARunningCall) {
  StartGuarded();
  const auto stub = v1::Longstream::NewStub(PlainChannel());
  v1::GenerateRequest request = Request(session_);
  request.set_max_tokens(50);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer client");
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  guard_.SetCredentials(Credentials());
  while (reader->Read(&response)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(response.has_finish());
  EXPECT_EQ(CodeOfModels(PlainChannel()), grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace longstream
