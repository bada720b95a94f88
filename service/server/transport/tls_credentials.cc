// Uses gRPC's C interface, because its C++ interface has no certificates that are fetched.
#include "service/server/transport/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longstream {
namespace {

grpc_ssl_client_certificate_request_type RequestType(ClientCertificates clients) {
  switch (clients) {
    case ClientCertificates::kNone:
      return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    case ClientCertificates::kOptional:
      return GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    case ClientCertificates::kRequired:
      break;
  }
  return GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

class FetchedCredentials final : public grpc::ServerCredentials {
 public:
  FetchedCredentials(std::shared_ptr<const CurrentCertificates> certificates,
                     ClientCertificates clients)
      : certificates_(std::move(certificates)),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                RequestType(clients), &FetchedCredentials::Fetch, this))) {}
  ~FetchedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC's callback before each handshake. gRPC has the certificates that it got last, and keeps
  // them if it cannot use new ones.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<FetchedCredentials*>(self)->Fetch(config);
  }
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<const Certificates> current = certificates_->Get();
    if (current == fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{current->key.c_str(), current->certificate.c_str()};
    // gRPC aborts if a later config has no authorities, even if clients are not asked for
    // certificates. Then it does not use them.
    const std::string& authorities =
        current->client_ca.empty() ? current->certificate : current->client_ca;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    fetched_ = std::move(current);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const CurrentCertificates> certificates_;
  absl::Mutex mutex_;
  std::shared_ptr<const Certificates> fetched_ ABSL_GUARDED_BY(mutex_);
  grpc_server_credentials* const credentials_;  // the last member: it calls Fetch
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> CredentialsWith(
    std::shared_ptr<const CurrentCertificates> certificates, ClientCertificates clients) {
  if (certificates == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<FetchedCredentials>(std::move(certificates), clients);
}

}  // namespace longstream
