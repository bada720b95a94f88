// Tokens, and the file of credentials with every kind of error.
#include "service/security/credentials.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/security/token.h"
#include "tests/service/security/token_row.h"

namespace longstream {
namespace {

using Kind = CertificateName::Kind;

constexpr char kDigest[] =
    "sha256=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

Credentials Parsed(const std::string& text) {
  absl::StatusOr<Credentials> credentials = Credentials::Parse(text, "f");
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  return credentials.ok() ? *std::move(credentials) : Credentials();
}

TEST(TokenTest, TokensAreDrawnAndTheirDigestsCompared) {
  const std::string one = NewToken(), other = NewToken();
  EXPECT_EQ(one.size(), 68u);
  EXPECT_EQ(one.substr(0, 4), "lst_");
  EXPECT_NE(one, other);
  EXPECT_FALSE(AreEqual(DigestOf(one), DigestOf(other)));
  EXPECT_TRUE(AreEqual(DigestOf(one), DigestOf(one)));
  EXPECT_EQ(ToHex(DigestOf("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(DigestFromHex(ToHex(DigestOf(one))), DigestOf(one));
}

TEST(CredentialsTest, FindsTheCallerOfAToken) {
  const Credentials credentials =
      Parsed("# who may call\n\n" + RowFor("a", "name=alice role=client tenant=acme") +
             RowFor("b", "role=operator  name=bob\t") + "  # end\r\n");
  EXPECT_EQ(credentials.size(), 2u);
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const std::optional<Caller> alice = credentials.ByToken("a", now);
  ASSERT_TRUE(alice.has_value());
  EXPECT_EQ(alice->name, "alice");
  EXPECT_EQ(alice->tenant, "acme");
  EXPECT_EQ(alice->role, Role::kClient);
  EXPECT_EQ(credentials.ByToken("b", now)->role, Role::kOperator);
  EXPECT_EQ(credentials.ByToken("b", now)->tenant, "");
  for (const char* wrong : {"", "c", "aa", "A"}) {
    EXPECT_FALSE(credentials.ByToken(wrong, now).has_value()) << wrong;
  }
}

TEST(CredentialsTest, ACredentialExpires) {
  const Credentials credentials =
      Parsed(RowFor("a", "name=alice role=client expires=2027-01-31T01:00:00+01:00") +
             "certificate name=c role=peer expires=2027-01-31T00:00:00Z dns=host\n");
  absl::Time expiry;
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, "2027-01-31T00:00:00Z", &expiry, nullptr));
  for (const auto& [time, valid] :
       {std::pair(expiry - absl::Nanoseconds(1), true), std::pair(expiry, false)}) {
    EXPECT_EQ(credentials.ByToken("a", time).has_value(), valid);
    EXPECT_EQ(credentials.ByCertificate({{Kind::kDns, "host"}}, time).has_value(), valid);
  }
}

TEST(CredentialsTest, EveryRoleMayHaveATokenOrACertificate) {
  for (const Role role : {Role::kClient, Role::kOperator, Role::kPeer}) {
    const std::string words = std::string(" name=n role=") + NameOf(role);
    const Credentials credentials =
        Parsed(RowFor("t", words) + "certificate" + words + " dns=host\n");
    const absl::Time now = absl::UnixEpoch();
    EXPECT_EQ(credentials.ByToken("t", now)->role, role);
    EXPECT_EQ(credentials.ByCertificate({{CertificateName::Kind::kDns, "host"}}, now)->role, role);
  }
}

TEST(CredentialsTest, FindsTheCallerOfACertificate) {
  const Credentials credentials = Parsed(
      "certificate name=p role=peer dns=replica-1\n"
      "certificate name=u role=operator uri=spiffe://x/y\n"
      "certificate name=c role=client tenant=t common_name=alice\n");
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(
      credentials.ByCertificate({{Kind::kUri, "other"}, {Kind::kDns, "replica-1"}}, now)->name,
      "p");
  EXPECT_EQ(credentials.ByCertificate({{Kind::kUri, "spiffe://x/y"}}, now)->role, Role::kOperator);
  EXPECT_EQ(credentials.ByCertificate({{Kind::kCommonName, "alice"}}, now)->tenant, "t");
  // A name counts only as the kind that the row says.
  EXPECT_FALSE(credentials.ByCertificate({{Kind::kCommonName, "replica-1"}}, now).has_value());
  EXPECT_FALSE(credentials.ByCertificate({}, now).has_value());
}

TEST(CredentialsTest, NamesTheLineOfAnError) {
  const std::string token = absl::StrCat("token name=a role=client ", kDigest);
  const std::vector<std::pair<std::string, std::string>> refusals = {
      {"\n# c\nuser name=a", "f:3: word 1: expected token or certificate"},
      {"token name=a role=client lst_secret", "f:1: word 4: expected KEY=VALUE"},
      {"token name=a rank=client",
       "f:1: word 3: unknown key; expected one of: name, role, tenant, expires, sha256, dns, uri, "
       "common_name"},
      {"token name=a name=b", "f:1: name: occurs twice"},
      {absl::StrCat("token role=client ", kDigest),
       "f:1: name: expected 1 to 64 letters, digits, '.', '_' or '-'"},
      {absl::StrCat("token name=", std::string(65, 'a'), " role=client ", kDigest),
       "f:1: name: expected 1 to 64 letters, digits, '.', '_' or '-'"},
      {absl::StrCat("token name=a/b role=client ", kDigest),
       "f:1: name: expected 1 to 64 letters, digits, '.', '_' or '-'"},
      {absl::StrCat("token name=a role=client tenant= ", kDigest),
       "f:1: tenant: expected 1 to 64 letters, digits, '.', '_' or '-'"},
      {absl::StrCat("token name=a ", kDigest), "f:1: role: expected client, operator or peer"},
      {absl::StrCat("token name=a role=root ", kDigest),
       "f:1: role: expected client, operator or peer"},
      {absl::StrCat("token name=a role=client expires=tomorrow ", kDigest),
       "f:1: expires: expected a time such as 2027-01-31T00:00:00Z"},
      {"token name=a role=client", "f:1: sha256: expected 64 hexadecimal digits"},
      {"token name=a role=client sha256=lst_secret", "f:1: sha256: expected 64 hexadecimal digits"},
      {token + " dns=x", "f:1: dns: a row for a token does not have this key"},
      {"certificate name=a role=client",
       "f:1: expected one of dns=NAME, uri=URI and common_name=NAME"},
      {"certificate name=a role=client dns=",
       "f:1: expected one of dns=NAME, uri=URI and common_name=NAME"},
      {"certificate name=a role=client dns=x uri=y",
       "f:1: expected one of dns=NAME, uri=URI and common_name=NAME"},
      {absl::StrCat("certificate name=a role=client dns=x ", kDigest),
       "f:1: sha256: a row for a certificate does not have this key"},
      {token + "\n" + token, "f:2: an earlier row, of a, has the same sha256"},
      {"certificate name=a role=client dns=x\ncertificate name=b role=peer dns=x",
       "f:2: an earlier row, of a, has the same name of a certificate"},
  };
  for (const auto& [text, message] : refusals) {
    const absl::StatusOr<Credentials> credentials = Credentials::Parse(text, "f");
    ASSERT_FALSE(credentials.ok()) << text;
    EXPECT_EQ(credentials.status().message(), message) << text;
    EXPECT_EQ(credentials.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(CredentialsTest, LimitsTheNumberOfRows) {
  std::string text;
  for (size_t i = 0; i < Credentials::kMaxRows; ++i) {
    absl::StrAppend(&text, "certificate name=a role=client dns=", i, "\n");
  }
  EXPECT_EQ(Parsed(text).size(), Credentials::kMaxRows);
  const absl::StatusOr<Credentials> more =
      Credentials::Parse(text + "certificate name=a role=client dns=x", "f");
  EXPECT_EQ(more.status().message(), "f:4097: expected at most 4096 rows");
}

TEST(CredentialsTest, RowsNeedConfiguredTenants) {
  const auto refusal = [](const std::string& text) {
    return std::string(Parsed("# a\n" + text).CheckTenants({"acme", "b"}).message());
  };
  EXPECT_EQ(refusal(RowFor("1", "name=a role=client tenant=acme") +
                    RowFor("2", "name=a role=client tenant=b") +
                    RowFor("3", "name=o role=operator") + "certificate name=p role=peer dns=p\n"),
            "");
  EXPECT_EQ(refusal(RowFor("1", "name=a role=client tenant=b") +
                    RowFor("2", "name=a role=client tenant=acm")),
            "f:3: tenant: the configuration has no tenant 'acm'");
  EXPECT_EQ(refusal(RowFor("1", "name=a role=client")),
            "f:2: tenant: a client needs one of the configured tenants");
  EXPECT_EQ(refusal(RowFor("1", "name=a role=operator tenant=c")),
            "f:2: tenant: the configuration has no tenant 'c'");
}

}  // namespace
}  // namespace longstream
