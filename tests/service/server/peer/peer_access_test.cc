// Who may call the listener of peers, and how a replica shows who it is.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "longstream/peer/v1/peer.pb.h"
#include "service/security/access_table.h"
#include "service/security/guard.h"
#include "tests/service/security/test_authority.h"
#include "tests/service/security/token_row.h"
#include "tests/service/server/peer/peers_fixture.h"
#include "tests/service/server/transport/raw_call.h"

namespace longstream {
namespace {

// The time of a call for which there is no connection.
constexpr absl::Duration kShort = absl::Seconds(1);

Credentials TestCredentials() {
  return *Credentials::Parse(TokenRow("client", "role=client") +
                                 TokenRow("operator", "role=operator") +
                                 TokenRow("peer", "role=peer") +
                                 TokenRow("expired", "role=peer expires=2001-01-01T00:00:00Z") +
                                 "certificate name=cc role=client common_name=client\n"
                                 "certificate name=oc role=operator common_name=operator\n"
                                 "certificate name=pc role=peer dns=replica\n",
                             "f");
}

class PeerAccessTest : public testing::Test {
 protected:
  PeerAccessTest() : replica_("b/2") {}

  void StartWithTokens() { replica_.Listen({.guard = &guard_}); }
  void StartWithTls() {
    replica_.Listen({.guard = &guard_,
                     .certificates = CertificatesOf(
                         authority_.Issue("server", "DNS:localhost,IP:127.0.0.1,DNS:replica")),
                     .client_certificates = ClientCertificates::kOptional});
  }
  std::shared_ptr<CurrentCertificates> CertificatesOf(const TestCertificate& own) {
    return std::make_shared<CurrentCertificates>(
        Certificates{own.certificate, own.key, authority_.certificate(), absl::InfiniteFuture()});
  }
  std::shared_ptr<grpc::Channel> Channel(const std::shared_ptr<grpc::ChannelCredentials>& with) {
    return grpc::CreateChannel(replica_.lease().peer_address, with);
  }
  std::shared_ptr<grpc::Channel> TlsChannel(const TestCertificate& own = {}) {
    return Channel(grpc::SslCredentials({authority_.certificate(), own.key, own.certificate}));
  }

  // Every method, with a message that it cannot decode: how far does the call get?
  void ExpectAll(const std::shared_ptr<grpc::Channel>& channel,
                 const std::vector<std::string>& authorization, grpc::StatusCode code) {
    for (const std::string& method : replica_.server->methods()) {
      const RawAnswer answer =
          CallRaw(channel, method, {"\xff"}, GRPC_COMPRESS_NONE, authorization);
      EXPECT_EQ(answer.status.error_code(), code) << method << answer.status.error_message();
    }
    EXPECT_EQ(replica_.inbox.size(), 0u);
  }
  // Whether a replica with these options gets a Fetch through.
  bool Reaches(PeerChannels::Options channels, absl::Duration most = kPatience) {
    PeerLimits limits = PatientLimits();
    limits.answer_timeout = most;
    TestReplica caller("a/1", limits, std::move(channels));
    caller.client->SetReplicas({replica_.lease()});
    caller.client->Send("b/2", fleet::Fetch{TestSession(), ++last_, 1, {}});
    EXPECT_TRUE(WaitUntil([&] { return replica_.inbox.size() + caller.inbox.size() > 0; }));
    if (replica_.inbox.size() > 0) return replica_.inbox.Next<fleet::Fetch>("a/1").has_value();
    EXPECT_EQ(caller.inbox.Next<fleet::Refused>("b/2")->why, fleet::Refusal::kNotYet);
    refused_ = caller.inbox.refused();
    return false;
  }

  TestAuthority authority_;
  Guard guard_{/*open_health=*/true, TestCredentials(), {}};
  TestReplica replica_;
  fleet::Number last_ = 0;
  std::pair<fleet::ReplicaName, absl::StatusCode> refused_;  // of the last caller
};

TEST_F(PeerAccessTest, TheTableHasExactlyTheMethodsOfTheListener) {
  StartWithTokens();
  std::set<std::string> rows;
  for (const std::string_view row : AccessTable::Methods()) {
    if (row.starts_with("/longstream.peer.")) rows.emplace(row);
  }
  const std::vector<std::string> methods = replica_.server->methods();
  EXPECT_EQ(std::set<std::string>(methods.begin(), methods.end()), rows);
  // Written apart from the table.
  const AccessTable table(/*open_health=*/true);
  for (const std::string& method : methods) {
    EXPECT_EQ(table.Find(method), AccessTable::Answer::kRoles);
    EXPECT_TRUE(table.Allows(method, Role::kPeer));
    EXPECT_FALSE(table.Allows(method, Role::kClient));
    EXPECT_FALSE(table.Allows(method, Role::kOperator));
  }
  const auto* const service = peer::v1::FetchRequest::descriptor()->file()->service(0);
  EXPECT_EQ(static_cast<size_t>(service->method_count()), methods.size());
}

TEST_F(PeerAccessTest, EveryMethodWithEveryToken) {
  StartWithTokens();
  const auto channel = Channel(grpc::InsecureChannelCredentials());
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{},
                                             {""},
                                             {"Bearer wrong"},
                                             {"Bearer expired"},
                                             {"peer"},
                                             {"Basic peer"},
                                             {"Bearer peer", "Bearer peer"}}) {
    ExpectAll(channel, wrong, grpc::StatusCode::UNAUTHENTICATED);
  }
  ExpectAll(channel, {"Bearer client"}, grpc::StatusCode::PERMISSION_DENIED);
  ExpectAll(channel, {"Bearer operator"}, grpc::StatusCode::PERMISSION_DENIED);
  ExpectAll(channel, {"Bearer peer"}, grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PeerAccessTest, EveryMethodWithEveryCertificate) {
  StartWithTls();
  ExpectAll(TlsChannel(), {}, grpc::StatusCode::UNAUTHENTICATED);
  ExpectAll(TlsChannel(authority_.Issue("client", "")), {}, grpc::StatusCode::PERMISSION_DENIED);
  ExpectAll(TlsChannel(authority_.Issue("operator", "")), {}, grpc::StatusCode::PERMISSION_DENIED);
  ExpectAll(TlsChannel(authority_.Issue("stranger", "DNS:stranger")), {},
            grpc::StatusCode::UNAUTHENTICATED);
  ExpectAll(TlsChannel(authority_.Issue("x", "DNS:replica")), {},
            grpc::StatusCode::INVALID_ARGUMENT);
  ExpectAll(TlsChannel(authority_.Issue("x", "DNS:replica")), {"Bearer client"},
            grpc::StatusCode::PERMISSION_DENIED);
  ExpectAll(Channel(grpc::InsecureChannelCredentials()), {"Bearer peer"},
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(PeerAccessTest, AReplicaShowsItsToken) {
  StartWithTokens();
  EXPECT_TRUE(Reaches({.token = [] { return std::string("peer"); }}));
  EXPECT_FALSE(Reaches({.token = [] { return std::string("wrong"); }}));
  EXPECT_EQ(refused_, std::pair(fleet::ReplicaName("b/2"), absl::StatusCode::kUnauthenticated));
  EXPECT_FALSE(Reaches({.token = [] { return std::string("operator"); }}));
  EXPECT_EQ(refused_, std::pair(fleet::ReplicaName("b/2"), absl::StatusCode::kPermissionDenied));
  EXPECT_FALSE(Reaches({}));
}

TEST_F(PeerAccessTest, AReplicaShowsItsCertificate) {
  StartWithTls();
  EXPECT_TRUE(Reaches({.certificates = CertificatesOf(authority_.Issue("x", "DNS:replica"))}));
  EXPECT_FALSE(Reaches({.certificates = CertificatesOf(authority_.Issue("client", ""))}));
  EXPECT_TRUE(Reaches({.certificates = CertificatesOf(authority_.Issue("client", "")),
                       .token = [] { return std::string("peer"); }}));
  EXPECT_FALSE(Reaches({}, kShort)) << "in plain text";
  TestAuthority stranger;
  const TestCertificate own = stranger.Issue("x", "DNS:replica");
  const auto with_authority = [&](const std::string& authority) {
    return std::make_shared<CurrentCertificates>(
        Certificates{own.certificate, own.key, authority, absl::InfiniteFuture()});
  };
  EXPECT_FALSE(Reaches({.certificates = with_authority(authority_.certificate())}, kShort))
      << "its certificate is of another authority";
  EXPECT_FALSE(Reaches({.certificates = with_authority(stranger.certificate())}, kShort))
      << "it does not know the authority of the other replica";
}

// The certificate is replaced while the replica runs: the next renewal of the lease takes it.
TEST_F(PeerAccessTest, AChangedCertificateCounts) {
  StartWithTls();
  const auto current = CertificatesOf(authority_.Issue("client", ""));
  TestReplica caller("a/1", PatientLimits(), {.certificates = current});
  caller.client->SetReplicas({replica_.lease()});
  caller.client->Send("b/2", fleet::Fetch{TestSession(), 1, 1, {}});
  EXPECT_TRUE(caller.inbox.Next<fleet::Refused>("b/2").has_value());
  const TestCertificate next = authority_.Issue("x", "DNS:replica");
  current->Set({next.certificate, next.key, authority_.certificate(), absl::InfiniteFuture()});
  caller.client->SetReplicas({replica_.lease()});
  caller.client->Send("b/2", fleet::Fetch{TestSession(), 2, 1, {}});
  EXPECT_TRUE(replica_.inbox.Next<fleet::Fetch>("a/1").has_value());
}

TEST_F(PeerAccessTest, NoTokenGoesToOtherHostsInPlainText) {
  PeerChannels channels({.token = [] { return std::string("peer"); }});
  channels.Set({{"a/1", "192.0.2.1:1", ""}, {"b/2", "127.0.0.1:1", ""}, {"c/3", "host:1", ""}});
  EXPECT_EQ(channels.Find("a/1"), nullptr);
  EXPECT_NE(channels.Find("b/2"), nullptr);
  EXPECT_EQ(channels.Find("c/3"), nullptr);
  PeerChannels allowed({.token = [] { return std::string("peer"); }, .plaintext_tokens = true});
  allowed.Set({{"a/1", "192.0.2.1:1", ""}});
  EXPECT_NE(allowed.Find("a/1"), nullptr);
}

TEST_F(PeerAccessTest, AChannelIsKeptWhileTheReplicaIsThere) {
  PeerChannels channels({});
  EXPECT_TRUE(channels.Set({{"a/1", "127.0.0.1:1", ""}}).empty());
  const auto channel = channels.Find("a/1");
  EXPECT_TRUE(channels.Set({{"b/2", "127.0.0.1:2", ""}, {"a/1", "127.0.0.1:1", ""}}).empty());
  EXPECT_EQ(channels.Find("a/1"), channel);
  EXPECT_EQ(channels.Set({{"a/1", "127.0.0.1:3", ""}}), std::vector<std::string>{"b/2"});
  EXPECT_NE(channels.Find("a/1"), channel) << "it has another address";
  EXPECT_EQ(channels.Find("b/2"), nullptr);
}

TEST_F(PeerAccessTest, WithoutCredentialsOnlyOnTheLoopback) {
  const auto server = PeerServer::Start({.listen = "0.0.0.0:0"}, replica_.client.get());
  EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << server.status();
  EXPECT_THAT(server.status().message(), testing::HasSubstr("needs security.credentials"));
  StartWithTokens();
  const auto taken =
      PeerServer::Start({.listen = replica_.lease().peer_address}, replica_.client.get());
  EXPECT_TRUE(absl::IsUnavailable(taken.status())) << taken.status();
}

}  // namespace
}  // namespace longstream
