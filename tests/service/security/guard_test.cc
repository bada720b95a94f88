// The decisions of the guard, and the table of methods.
#include "service/security/guard.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/service/security/token_row.h"

namespace longstream {
namespace {

constexpr char kGetModel[] = "/longstream.v1.Longstream/GetModel";
constexpr char kGenerate[] = "/longstream.v1.Longstream/Generate";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

// One token for each role: "client" and "operator", and "old", which has expired. A certificate for
// the host "peer".
Credentials TestCredentials() {
  return *Credentials::Parse(TokenRow("client", "role=client tenant=acme") +
                                 TokenRow("operator", "role=operator") +
                                 TokenRow("old", "role=client expires=2001-01-01T00:00:00Z") +
                                 "certificate name=peer role=peer dns=peer\n",
                             "f");
}

class GuardTest : public testing::Test {
 protected:
  static Presented Token(std::string_view header) { return {{header}, {}}; }

  std::vector<std::string> audit_;
  std::vector<absl::StatusCode> refused_;
  Guard guard_{true,
               TestCredentials(),
               {.on_operator_call =
                    [this](const Caller& caller, std::string_view method, std::string_view id,
                           const absl::Status& status) {
                      audit_.push_back(absl::StrCat(caller.name, " ", std::string(method), " ",
                                                    std::string(id), " ",
                                                    absl::StatusCodeToString(status.code())));
                    },
                .on_refused = [this](absl::StatusCode code) { refused_.push_back(code); }}};
};

TEST_F(GuardTest, LetsTheRightRoleIn) {
  const absl::StatusOr<Caller> client = guard_.Authorize(kGenerate, Token("Bearer client"), "1");
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(client->tenant, "acme");
  EXPECT_EQ(client->name, "client");
  EXPECT_TRUE(guard_.Authorize(kGetModel, Token("bearer operator"), "2").ok());
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(audit_, std::vector<std::string>{absl::StrCat("operator ", kGetModel, " 2 OK")});
}

// Every reason has the same status, so a client learns nothing about the credentials.
TEST_F(GuardTest, RefusesEveryInvalidCredentialAlike) {
  const std::vector<Presented> invalid = {
      {},
      Token(""),
      Token("client"),
      Token("Bearer"),
      Token("Bearer "),
      Token("Bearer  client"),
      Token("Bearer wrong"),
      Token("Bearer old"),
      Token("Basic client"),
      {{"Bearer client", "Bearer client"}, {}},
      {{"Bearer wrong"}, {{CertificateName::Kind::kDns, "peer"}}},
      {{}, {{CertificateName::Kind::kDns, "stranger"}}}};
  for (const Presented& presented : invalid) {
    for (const char* method : {kGenerate, kGetModel, kReflection}) {
      EXPECT_EQ(guard_.Authorize(method, presented, "").status(),
                absl::UnauthenticatedError("the call needs a valid credential"));
    }
  }
  EXPECT_EQ(refused_.size(), 3 * invalid.size());
  EXPECT_TRUE(audit_.empty());
}

TEST_F(GuardTest, RefusesOtherRoles) {
  const Presented peer{{}, {{CertificateName::Kind::kDns, "peer"}}};
  for (const auto& [method, presented] :
       {std::pair(kGenerate, Token("Bearer operator")),
        std::pair(kReflection, Token("Bearer client")), std::pair(kGenerate, peer),
        std::pair(kReflection, peer),
        std::pair("/longstream.v1.Longstream/Nothing", Token("Bearer client")),
        std::pair("", Token("Bearer operator"))}) {
    EXPECT_EQ(guard_.Authorize(method, presented, "3").status(),
              absl::PermissionDeniedError("the call's credential does not allow this"))
        << method;
  }
  EXPECT_EQ(audit_,
            std::vector<std::string>{absl::StrCat("operator ", kGenerate, " 3 PERMISSION_DENIED")});
}

TEST_F(GuardTest, HealthIsOpenIfWanted) {
  EXPECT_TRUE(guard_.Authorize(kCheck, {}, "").ok());
  EXPECT_TRUE(guard_.Authorize(kCheck, Token("Bearer wrong"), "").ok());
  EXPECT_FALSE(guard_.Authorize("/grpc.health.v1.Health/Watch", {}, "").ok());
  const Guard closed(false, TestCredentials(), {});
  EXPECT_TRUE(absl::IsUnauthenticated(closed.Authorize(kCheck, {}, "").status()));
  for (const Presented& presented : {Token("Bearer client"), Token("Bearer operator"),
                                     Presented{{}, {{CertificateName::Kind::kDns, "peer"}}}}) {
    EXPECT_TRUE(closed.Authorize(kCheck, presented, "").ok());
  }
}

// Health checks of an operator are calls of an operator.
TEST_F(GuardTest, OpenHealthKnowsOperators) {
  EXPECT_TRUE(guard_.Authorize(kCheck, Token("Bearer operator"), "7").ok());
  EXPECT_TRUE(guard_.Authorize(kCheck, Token("Bearer client"), "8").ok());
  EXPECT_EQ(audit_, std::vector<std::string>{absl::StrCat("operator ", kCheck, " 7 OK")});
  EXPECT_TRUE(refused_.empty());
}

TEST_F(GuardTest, ACertificateCountsUntilItExpires) {
  Presented peer{{}, {{CertificateName::Kind::kDns, "peer"}}, absl::Now() + absl::Hours(1)};
  EXPECT_TRUE(guard_.Authorize("/grpc.health.v1.Health/Watch", peer, "").ok());
  peer.certificate_expires = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(guard_.Authorize("/grpc.health.v1.Health/Watch", peer, "").status(),
            absl::UnauthenticatedError("the call needs a valid credential"));
}

TEST_F(GuardTest, AuthorizesARole) {
  EXPECT_TRUE(guard_.AuthorizeRole("/metrics", Role::kOperator, Token("Bearer operator"), "").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(
      guard_.AuthorizeRole("/metrics", Role::kOperator, Token("Bearer client"), "").status()));
  EXPECT_TRUE(
      absl::IsUnauthenticated(guard_.AuthorizeRole("/metrics", Role::kOperator, {}, "").status()));
}

// While the credentials are replaced, a credential that is in both files always works, and one that
// is in none never does.
TEST_F(GuardTest, CredentialsAreReplacedWhileCallsArrive) {
  std::vector<std::thread> callers;
  Guard guard(true, TestCredentials(), {});
  std::thread changes([&guard] {
    for (int i = 0; i < 500; ++i) guard.SetCredentials(TestCredentials());
  });
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&guard] {
      for (int call = 0; call < 500; ++call) {
        EXPECT_TRUE(guard.Authorize(kGenerate, Token("Bearer client"), "").ok());
        EXPECT_FALSE(guard.Authorize(kGenerate, Token("Bearer wrong"), "").ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  changes.join();
  guard.SetCredentials(Credentials());
  EXPECT_FALSE(guard.Authorize(kGenerate, Token("Bearer client"), "").ok());
}

TEST(AccessTableTest, EachMethodHasOneRow) {
  const std::vector<std::string_view> methods = AccessTable::Methods();
  EXPECT_EQ(std::set<std::string_view>(methods.begin(), methods.end()).size(), methods.size());
  const AccessTable table(false);
  for (const std::string_view method : methods) {
    EXPECT_EQ(table.Find(method), AccessTable::Answer::kRoles);
    EXPECT_TRUE(table.Allows(method, Role::kClient) || table.Allows(method, Role::kOperator) ||
                table.Allows(method, Role::kPeer));
  }
  EXPECT_EQ(table.Find("/grpc.channelz.v1.Channelz/GetServers"), AccessTable::Answer::kForbidden);
  EXPECT_TRUE(table.CheckHasRows({kGetModel, kGenerate}).ok());
  EXPECT_EQ(table.CheckHasRows({kGetModel, "/a.B/C"}).message(),
            "the table of methods has no row for /a.B/C");
}

}  // namespace
}  // namespace longstream
