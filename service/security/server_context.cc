// Gives OpenSSL the contents of the PEM files.
#include "service/security/server_context.h"

#include <openssl/err.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// An error with the reason that OpenSSL gave last.
absl::Status Refused(const std::string& name) {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": OpenSSL does not accept it: ", reason == nullptr ? "no reason given" : reason));
}

absl::Status UseOwn(const CertificateFiles& files, const Certificates& certificates,
                    SSL_CTX* context) {
  const std::vector<OpenSslCertificate> chain = CertificatesIn(certificates.certificate);
  const OpenSslKey key = KeyIn(certificates.key);
  ERR_clear_error();
  if (chain.empty() || SSL_CTX_use_certificate(context, chain[0].get()) != 1) {
    return Refused(files.certificate);
  }
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1) return Refused(files.key);
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) return Refused(files.certificate);
  }
  return absl::OkStatus();
}

absl::Status UseAuthorities(const CertificateFiles& files, const Certificates& certificates,
                            SSL_CTX* context) {
  const std::vector<OpenSslCertificate> authorities = CertificatesIn(certificates.client_ca);
  ERR_clear_error();
  if (authorities.empty()) return Refused(files.client_ca);
  for (const OpenSslCertificate& authority : authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return Refused(files.client_ca);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenSslContext> NewServerContext(const CertificateFiles& files,
                                                const Certificates& certificates,
                                                ClientCertificates clients) {
  OpenSslContext context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return Refused(files.certificate);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  if (absl::Status status = UseOwn(files, certificates, context.get()); !status.ok()) return status;
  if (clients == ClientCertificates::kNone) return context;
  if (absl::Status status = UseAuthorities(files, certificates, context.get()); !status.ok()) {
    return status;
  }
  const int required =
      clients == ClientCertificates::kRequired ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | required, nullptr);
  return context;
}

}  // namespace longstream
