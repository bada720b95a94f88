// The certificates and credentials of the server, which it reads again when they change.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_SECURITY_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_SECURITY_H_

#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/config/server_config.h"
#include "service/metrics/json_log.h"
#include "service/metrics/security_metrics.h"
#include "service/security/certificates.h"
#include "service/security/guard.h"
#include "service/security/token_file.h"
#include "service/security/watched_files.h"

namespace longstream {

CertificateFiles FilesOf(const TlsConfig& tls);
ClientCertificates ClientCertificatesOf(const TlsConfig& tls);

// Reads the certificates or the credentials that the configuration names. Errors are those of
// ReadFiles, CheckCertificates, Credentials::Parse and Credentials::CheckTenants. Only the owner of
// the file of credentials may use it.
absl::StatusOr<Certificates> ReadCertificates(const TlsConfig& tls);
absl::StatusOr<Credentials> ReadCredentials(const ServerConfig& config);

// The addresses for gRPC and HTTP where anybody may call: other machines can reach them, and
// neither a token nor a certificate is asked for.
std::vector<std::string> OpenToNetwork(const ServerConfig& config);

// A changed file is taken if it is right. Otherwise the server goes on with what it has, logs the
// error and counts it.
class ServerSecurity {
 public:
  // Errors: a file cannot be read or is wrong. `log` and `registry` must outlive the object.
  static absl::StatusOr<std::unique_ptr<ServerSecurity>> Open(const ServerConfig& config,
                                                              const JsonLog* log,
                                                              prometheus::Registry* registry);

  // Null if the configuration names no credentials.
  const Guard* guard() const { return guard_.get(); }
  // Logs a call of an operator.
  decltype(Guard::Listeners::on_operator_call) on_operator_call() const;
  // Null if the port takes plain text.
  const std::shared_ptr<CurrentCertificates>& certificates() const { return certificates_; }
  const std::shared_ptr<CurrentCertificates>& metrics_certificates() const {
    return metrics_certificates_;
  }
  const std::shared_ptr<CurrentCertificates>& http_certificates() const {
    return http_certificates_;
  }
  // The token that this replica shows to others. Null if the configuration names none.
  const std::shared_ptr<CurrentToken>& fleet_token() const { return fleet_token_; }

 private:
  ServerSecurity(const JsonLog* log, prometheus::Registry* registry)
      : log_(log), metrics_(registry) {}

  absl::Status OpenCertificates(const TlsConfig& tls, const char* kind, const char* port,
                                std::shared_ptr<CurrentCertificates>* certificates);
  absl::Status OpenCredentials(const ServerConfig& config);
  absl::Status OpenFleetToken(const std::string& path);
  Guard::Listeners ListenersOfCalls();
  // Logs and counts that a file has changed. `status`: why the change was not taken.
  void Report(const char* kind, const absl::Status& status);

  const JsonLog* const log_;
  SecurityMetrics metrics_;
  std::unique_ptr<Guard> guard_;
  std::shared_ptr<CurrentCertificates> certificates_;
  std::shared_ptr<CurrentCertificates> metrics_certificates_;
  std::shared_ptr<CurrentCertificates> http_certificates_;
  std::shared_ptr<CurrentToken> fleet_token_;
  std::optional<WatchedFiles> files_;  // the last member: its thread uses the others
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_SECURITY_H_
