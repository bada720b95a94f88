// Checks the PEM files one by one, then tries them with OpenSSL.
#include "service/security/certificates.h"

#include <openssl/err.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "service/security/openssl_objects.h"
#include "service/security/server_context.h"

namespace longstream {
namespace {

absl::Status Invalid(const std::string& path, const char* reason) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", reason));
}

// Returns the first certificate of a file. All must be readable.
absl::StatusOr<OpenSslCertificate> ReadCertificates(const std::string& path,
                                                    const std::string& text) {
  std::vector<OpenSslCertificate> certificates = CertificatesIn(text);
  if (certificates.empty()) return Invalid(path, "expected a certificate in PEM");
  // The end of the file is the error that no further block begins.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) return Invalid(path, "one of its certificates cannot be read");
  ERR_clear_error();
  return std::move(certificates.front());
}

absl::Time ExpiryOf(const X509& certificate) {
  std::tm time{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &time) != 1) return absl::InfinitePast();
  return absl::FromTM(time, absl::UTCTimeZone());
}

}  // namespace

absl::Time CertificateExpiry(const std::string& pem) {
  const std::vector<OpenSslCertificate> certificates = CertificatesIn(pem);
  ERR_clear_error();
  return certificates.empty() ? absl::InfinitePast() : ExpiryOf(*certificates.front());
}

absl::StatusOr<Certificates> CheckCertificates(const CertificateFiles& files,
                                               const FileContents& contents, absl::Time now) {
  const absl::StatusOr<OpenSslCertificate> certificate =
      ReadCertificates(files.certificate, contents[0]);
  if (!certificate.ok()) return certificate.status();
  const OpenSslKey key = KeyIn(contents[1]);
  if (key == nullptr) {
    return Invalid(files.key, "expected a private key in PEM without a password");
  }
  if (X509_check_private_key(certificate->get(), key.get()) != 1) {
    return Invalid(files.key, "the key does not belong to the certificate");
  }
  const absl::Time expires = ExpiryOf(**certificate);
  if (expires <= now) return Invalid(files.certificate, "the certificate has expired");
  if (!files.client_ca.empty()) {
    const absl::StatusOr<OpenSslCertificate> authority =
        ReadCertificates(files.client_ca, contents[2]);
    if (!authority.ok()) return authority.status();
  }
  Certificates checked{contents[0], contents[1], contents[2], expires};
  absl::Status status = NewServerContext(files, checked,
                                         files.client_ca.empty() ? ClientCertificates::kNone
                                                                 : ClientCertificates::kOptional)
                            .status();
  if (!status.ok()) return status;
  return checked;
}

}  // namespace longstream
