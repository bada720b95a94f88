// Reads the keys, and checks those that belong together.
#include "service/config/security_config.h"

#include "absl/strings/str_cat.h"
#include "service/security/loopback.h"

namespace longstream {
namespace {

// Returns an error if a token could be read on its way to the port.
std::optional<std::string> PlainTextError(const PortConfig& port) {
  if (port.tls.enabled() || IsLoopback(port.address)) return std::nullopt;
  return absl::StrCat("security.credentials: tokens would reach ", port.key, ", ", port.address,
                      ", in plain text; set up TLS, listen on 127.0.0.1, or set"
                      " security.plaintext_tokens: true");
}

}  // namespace

absl::Status ReadTls(const YamlNode& node, TlsConfig* tls) {
  absl::Status status = node.ReadMap({
      {"certificate", [&](const YamlNode& value) { return value.Read(&tls->certificate); }},
      {"key", [&](const YamlNode& value) { return value.Read(&tls->key); }},
      {"client_ca", [&](const YamlNode& value) { return value.Read(&tls->client_ca); }},
      {"client_certificates",
       [&](const YamlNode& value) {
         return value.ReadOneOf({"optional", "required"}, &tls->client_certificates);
       }},
  });
  if (!status.ok()) return status;
  const std::optional<std::string> error = TlsError(*tls);
  return error ? node.Error(*error) : absl::OkStatus();
}

absl::Status ReadSecurity(const YamlNode& node, SecurityConfig* security) {
  return node.ReadMap({
      {"credentials", [&](const YamlNode& value) { return value.Read(&security->credentials); }},
      {"open_health",
       [&](const YamlNode& value) { return value.ReadBool(&security->open_health); }},
      {"plaintext_tokens",
       [&](const YamlNode& value) { return value.ReadBool(&security->plaintext_tokens); }},
      {"metrics_credentials",
       [&](const YamlNode& value) { return value.ReadBool(&security->metrics_credentials); }},
  });
}

std::optional<std::string> TlsError(const TlsConfig& tls) {
  if (tls.certificate.empty() != tls.key.empty()) {
    return "certificate and key: expected both or none of them";
  }
  if (!tls.client_ca.empty() && !tls.enabled()) return "client_ca: needs certificate and key";
  if (tls.client_certificates == "required" && tls.client_ca.empty()) {
    return "client_certificates: required needs client_ca";
  }
  return std::nullopt;
}

std::optional<std::string> SecurityError(const SecurityConfig& security, bool channelz,
                                         const PortConfig& grpc, const PortConfig& metrics,
                                         const PortConfig& http) {
  if (security.credentials.empty()) {
    if (!security.metrics_credentials) return std::nullopt;
    return "security.metrics_credentials: needs security.credentials";
  }
  if (channelz) {
    return "connections.channelz: cannot be used with security.credentials, because channelz is"
           " gRPC's own and asks for none";
  }
  if (security.plaintext_tokens) return std::nullopt;
  if (auto error = PlainTextError(grpc)) return error;
  if (!http.address.empty()) {
    if (auto error = PlainTextError(http)) return error;
  }
  if (!security.metrics_credentials || metrics.address.empty()) return std::nullopt;
  return PlainTextError(metrics);
}

}  // namespace longstream
