// The keys of the configuration that say who may use the server.
#ifndef LONGSTREAM_SERVICE_CONFIG_SECURITY_CONFIG_H_
#define LONGSTREAM_SERVICE_CONFIG_SECURITY_CONFIG_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {

// The paths of PEM files for one port.
struct TlsConfig {
  std::string certificate;  // empty: the port takes plain text
  std::string key;
  std::string client_ca;                         // empty: clients are not asked for certificates
  std::string client_certificates = "optional";  // or required

  bool enabled() const { return !certificate.empty(); }
};

struct SecurityConfig {
  std::string credentials;           // a file; empty: no credential is asked for
  bool open_health = true;           // Check of the health service needs no credential
  bool plaintext_tokens = false;     // tokens may come without TLS from other hosts
  bool metrics_credentials = false;  // the metrics port needs a credential of an operator
};

absl::Status ReadTls(const YamlNode& node, TlsConfig* tls);
absl::Status ReadSecurity(const YamlNode& node, SecurityConfig* security);

// Returns an error if the keys of `tls` do not fit together. It names the key without its group.
std::optional<std::string> TlsError(const TlsConfig& tls);

// A port that the server listens on.
struct PortConfig {
  const char* key;  // of the address
  const std::string& address;
  const TlsConfig& tls;
};

// Returns an error if the keys about credentials do not fit the others: a token may not go over a
// network in plain text unless the configuration says so.
std::optional<std::string> SecurityError(const SecurityConfig& security, bool channelz,
                                         const PortConfig& grpc, const PortConfig& metrics,
                                         const PortConfig& http);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONFIG_SECURITY_CONFIG_H_
