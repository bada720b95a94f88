// Reads the files at the start, and watches them.
#include "service/program/server_security.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/security/loopback.h"

namespace longstream {
namespace {

std::vector<std::string> TenantNamesOf(const ServerConfig& config) {
  std::vector<std::string> names;
  names.reserve(config.tenants.size());
  for (const TenantConfig& tenant : config.tenants) names.push_back(tenant.name);
  return names;
}

// `tenants`: the configured ones; empty: the tenants of rows are not checked. A file without a row
// is refused: nobody could use the server, and nothing would say why.
absl::StatusOr<Credentials> ParseCredentials(const std::string& path,
                                             const std::vector<std::string>& tenants,
                                             const absl::StatusOr<FileContents>& contents) {
  if (!contents.ok()) return contents.status();
  absl::StatusOr<Credentials> credentials = Credentials::Parse((*contents)[0], path);
  if (!credentials.ok()) return credentials;
  if (credentials->size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has no row, so every call would be refused; 'longstream token new' makes one"));
  }
  if (tenants.empty()) return credentials;
  if (absl::Status status = credentials->CheckTenants(tenants); !status.ok()) return status;
  return credentials;
}

// Also refuses what a file may look like while another program writes it in place: one that ends
// within a row.
absl::StatusOr<Credentials> ParseChangedCredentials(const std::string& path,
                                                    const std::vector<std::string>& tenants,
                                                    const absl::StatusOr<FileContents>& contents) {
  absl::StatusOr<Credentials> credentials = ParseCredentials(path, tenants, contents);
  if (!credentials.ok()) return credentials;
  if ((*contents)[0].back() != '\n') {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the last line of a changed file must end with a newline"));
  }
  return credentials;
}

absl::StatusOr<Certificates> CheckContents(const CertificateFiles& files,
                                           const absl::StatusOr<FileContents>& contents) {
  if (!contents.ok()) return contents.status();
  return CheckCertificates(files, *contents, absl::Now());
}

// The token of the fleet in a file's contents, or their error.
absl::StatusOr<std::string> TokenOf(const absl::StatusOr<FileContents>& contents,
                                    const std::string& path) {
  if (!contents.ok()) return contents.status();
  return TokenIn(contents->front(), path);
}

// The same error with the key of the configuration that names the file.
absl::Status At(const char* key, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(key, ": ", status.message()));
}

}  // namespace

CertificateFiles FilesOf(const TlsConfig& tls) { return {tls.certificate, tls.key, tls.client_ca}; }

ClientCertificates ClientCertificatesOf(const TlsConfig& tls) {
  if (tls.client_ca.empty()) return ClientCertificates::kNone;
  return tls.client_certificates == "required" ? ClientCertificates::kRequired
                                               : ClientCertificates::kOptional;
}

std::vector<std::string> OpenToNetwork(const ServerConfig& config) {
  std::vector<std::string> open;
  if (!config.security.credentials.empty()) return open;
  for (const auto& [address, tls] :
       {std::pair(config.listen, &config.tls), std::pair(config.http.listen, &config.http.tls)}) {
    if (address.empty() || IsLoopback(address)) continue;
    if (ClientCertificatesOf(*tls) != ClientCertificates::kRequired) open.push_back(address);
  }
  return open;
}

absl::StatusOr<Certificates> ReadCertificates(const TlsConfig& tls) {
  return CheckContents(FilesOf(tls), ReadFiles(FilesOf(tls).paths(), FileUsers::kAnybody));
}

absl::StatusOr<Credentials> ReadCredentials(const ServerConfig& config) {
  const std::string& path = config.security.credentials;
  return ParseCredentials(path, TenantNamesOf(config), ReadFiles({path}, FileUsers::kOwner));
}

absl::StatusOr<std::unique_ptr<ServerSecurity>> ServerSecurity::Open(
    const ServerConfig& config, const JsonLog* log, prometheus::Registry* registry) {
  std::unique_ptr<ServerSecurity> security(new ServerSecurity(log, registry));
  if (config.tls.enabled() || config.metrics_tls.enabled() || config.http.tls.enabled() ||
      !config.security.credentials.empty() || !config.fleet.token_file.empty()) {
    security->files_.emplace();
  }
  absl::Status status =
      security->OpenCertificates(config.tls, "tls", "grpc", &security->certificates_);
  if (status.ok()) {
    status = security->OpenCertificates(config.metrics_tls, "metrics_tls", "metrics",
                                        &security->metrics_certificates_);
  }
  if (status.ok()) {
    status = security->OpenCertificates(config.http.tls, "http.tls", "http",
                                        &security->http_certificates_);
  }
  if (status.ok()) status = security->OpenCredentials(config);
  if (status.ok()) status = security->OpenFleetToken(config.fleet.token_file);
  if (!status.ok()) return status;
  return security;
}

absl::Status ServerSecurity::OpenCertificates(const TlsConfig& tls, const char* kind,
                                              const char* port,
                                              std::shared_ptr<CurrentCertificates>* certificates) {
  if (!tls.enabled()) return absl::OkStatus();
  const CertificateFiles files = FilesOf(tls);
  absl::StatusOr<FileContents> contents = ReadFiles(files.paths(), FileUsers::kAnybody);
  absl::StatusOr<Certificates> checked = CheckContents(files, contents);
  if (!checked.ok()) return At(kind, checked.status());
  metrics_.SetCertificateExpiry(port, checked->expires);
  *certificates = std::make_shared<CurrentCertificates>(*std::move(checked));
  files_->Watch(files.paths(), FileUsers::kAnybody, *std::move(contents),
                [this, files, kind, port,
                 current = certificates->get()](const absl::StatusOr<FileContents>& changed) {
                  absl::StatusOr<Certificates> next = CheckContents(files, changed);
                  Report(kind, next.status());
                  if (!next.ok()) return;
                  metrics_.SetCertificateExpiry(port, next->expires);
                  current->Set(*std::move(next));
                });
  return absl::OkStatus();
}

absl::Status ServerSecurity::OpenCredentials(const ServerConfig& config) {
  const SecurityConfig& security = config.security;
  const std::string& path = security.credentials;
  if (path.empty()) return absl::OkStatus();
  const std::vector<std::string> tenants = TenantNamesOf(config);
  absl::StatusOr<FileContents> contents = ReadFiles({path}, FileUsers::kOwner);
  absl::StatusOr<Credentials> credentials = ParseCredentials(path, tenants, contents);
  if (!credentials.ok()) return At("security.credentials", credentials.status());
  guard_ =
      std::make_unique<Guard>(security.open_health, *std::move(credentials), ListenersOfCalls());
  files_->Watch({path}, FileUsers::kOwner, *std::move(contents),
                [this, path, tenants](const absl::StatusOr<FileContents>& changed) {
                  absl::StatusOr<Credentials> next =
                      ParseChangedCredentials(path, tenants, changed);
                  Report("credentials", next.status());
                  if (next.ok()) guard_->SetCredentials(*std::move(next));
                });
  return absl::OkStatus();
}

absl::Status ServerSecurity::OpenFleetToken(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<FileContents> contents = ReadFiles({path}, FileUsers::kOwner);
  absl::StatusOr<std::string> token = TokenOf(contents, path);
  if (!token.ok()) return At("fleet.token_file", token.status());
  fleet_token_ = std::make_shared<CurrentToken>(*std::move(token));
  files_->Watch({path}, FileUsers::kOwner, *std::move(contents),
                [this, path](const absl::StatusOr<FileContents>& changed) {
                  absl::StatusOr<std::string> next = TokenOf(changed, path);
                  Report("fleet_token", next.status());
                  if (next.ok()) fleet_token_->Set(*std::move(next));
                });
  return absl::OkStatus();
}

decltype(Guard::Listeners::on_operator_call) ServerSecurity::on_operator_call() const {
  return [log = log_](const Caller& caller, std::string_view method, std::string_view request_id,
                      const absl::Status& status) {
    log->WriteAlways("operator_call", {{"name", caller.name},
                                       {"method", method},
                                       {"request_id", request_id},
                                       {"access", absl::StatusCodeToString(status.code())}});
  };
}

Guard::Listeners ServerSecurity::ListenersOfCalls() {
  Guard::Listeners listeners;
  listeners.on_operator_call = on_operator_call();
  listeners.on_refused = [this](absl::StatusCode code) {
    metrics_.CountRefused(absl::StatusCodeToString(code));
  };
  return listeners;
}

void ServerSecurity::Report(const char* kind, const absl::Status& status) {
  metrics_.CountReload(kind, status.ok());
  if (status.ok()) {
    log_->Write(LogLevel::kInfo, "security_reloaded", {{"kind", kind}});
  } else {
    log_->Write(LogLevel::kError, "security_reload_refused",
                {{"kind", kind}, {"error", absl::StrCat(status.message())}});
  }
}

}  // namespace longstream
