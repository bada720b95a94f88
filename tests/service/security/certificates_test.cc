// Certificates and keys that a server does and does not accept.
#include "service/security/certificates.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/security/test_authority.h"

namespace longstream {
namespace {

const CertificateFiles kFiles{"cert.pem", "key.pem", "ca.pem"};

std::string Refusal(const FileContents& contents) {
  return std::string(CheckCertificates(kFiles, contents, absl::Now()).status().message());
}

TEST(CertificatesTest, AcceptsAChainItsKeyAndAuthorities) {
  TestAuthority authority, other;
  const TestCertificate server = IssueForServer(&authority);
  const absl::StatusOr<Certificates> one =
      CheckCertificates(kFiles,
                        {server.certificate + authority.certificate(), server.key,
                         authority.certificate() + other.certificate()},
                        absl::Now());
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_GT(one->expires, absl::Now() + absl::Minutes(50));
  EXPECT_LT(one->expires, absl::Now() + absl::Minutes(70));
  EXPECT_TRUE(CheckCertificates({"cert.pem", "key.pem", ""}, {server.certificate, server.key, ""},
                                absl::Now())
                  .ok());
}

TEST(CertificatesTest, NamesTheFileThatIsWrong) {
  TestAuthority authority;
  const TestCertificate server = IssueForServer(&authority);
  const TestCertificate old = authority.Issue("server", "", -10);
  const std::string& ca = authority.certificate();
  const std::string half = server.certificate.substr(0, server.certificate.size() / 2);
  const std::vector<std::pair<FileContents, std::string>> refusals = {
      {{"", server.key, ca}, "cert.pem: expected a certificate in PEM"},
      {{"text", server.key, ca}, "cert.pem: expected a certificate in PEM"},
      {{half, server.key, ca}, "cert.pem: expected a certificate in PEM"},
      {{server.certificate + half, server.key, ca},
       "cert.pem: one of its certificates cannot be read"},
      {{server.certificate, "", ca}, "key.pem: expected a private key in PEM without a password"},
      {{server.certificate, server.certificate, ca},
       "key.pem: expected a private key in PEM without a password"},
      {{server.certificate, old.key, ca}, "key.pem: the key does not belong to the certificate"},
      {{old.certificate, old.key, ca}, "cert.pem: the certificate has expired"},
      {{server.certificate, server.key, ""}, "ca.pem: expected a certificate in PEM"}};
  for (const auto& [contents, message] : refusals) EXPECT_EQ(Refusal(contents), message);
}

// A pair that is right in itself, but that OpenSSL's security level refuses.
TEST(CertificatesTest, RefusesWhatOpenSslDoesNotUse) {
  TestAuthority authority;
  const TestCertificate weak = authority.IssueWithShortKey("server");
  EXPECT_EQ(Refusal({weak.certificate, weak.key, authority.certificate()}),
            "cert.pem: OpenSSL does not accept it: ee key too small");
}

TEST(CertificatesTest, ReadsTheExpiry) {
  TestAuthority authority;
  const absl::Time expires = CertificateExpiry(IssueForServer(&authority).certificate);
  EXPECT_GT(expires, absl::Now() + absl::Minutes(50));
  EXPECT_LT(expires, absl::Now() + absl::Minutes(70));
  EXPECT_EQ(CertificateExpiry("none"), absl::InfinitePast());
}

TEST(CertificatesTest, NewConnectionsGetTheNewCertificates) {
  CurrentCertificates current({"a", "b", "", absl::Now()});
  const std::shared_ptr<const Certificates> before = current.Get();
  EXPECT_EQ(current.Get(), before);
  current.Set({"c", "d", "", absl::Now()});
  EXPECT_EQ(current.Get()->certificate, "c");
  EXPECT_EQ(before->certificate, "a") << "a connection may still use it";
}

}  // namespace
}  // namespace longstream
