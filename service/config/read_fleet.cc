// The keys of the fleet.
#include "service/config/read_fleet.h"

#include <unistd.h>

#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/config/address.h"
#include "service/config/read_store.h"
#include "service/security/credentials.h"
#include "service/security/loopback.h"

namespace longstream {
namespace {

absl::Status Error(const char* key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("fleet.", key, ": ", what));
}

std::optional<std::string> IdError(const std::string& id) {
  if (IsCredentialName(id)) return std::nullopt;
  return absl::StrCat("expected 1 to 64 letters, digits, '.', '_' or '-', found '", id, "'");
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// Whether the address says where to listen, but not where others find it.
bool IsWildcard(const std::string& address) {
  const std::string host = HostOf(address);
  return host == "0.0.0.0" || host == "[::]" || host == "[::0]" || host == "*";
}

absl::Status ReadAddress(const YamlNode& node, std::string* address) {
  absl::Status status = node.Read(address);
  if (!status.ok() || address->empty()) return status;
  const std::optional<std::string> error = AddressError(*address);
  return error ? node.Error(*error) : absl::OkStatus();
}

// An address that replicas or clients get from the database.
absl::Status CheckAdvertised(const char* key, const std::string& configured, const char* listen_key,
                             const std::string& listen) {
  if (!configured.empty()) {
    if (const auto error = AddressError(configured)) return Error(key, *error);
    if (IsWildcard(configured) || configured.ends_with(":0")) {
      return Error(key,
                   absl::StrCat("'", configured, "' is no address that others can connect to"));
    }
    return absl::OkStatus();
  }
  if (!IsWildcard(listen)) return absl::OkStatus();
  return Error(key, absl::StrCat("is needed, because ", listen_key, ", ", listen,
                                 ", does not say where others find this server"));
}

// Only another replica may call, and no token may go over a network in plain text.
absl::Status CheckCredentials(const ServerConfig& config) {
  const std::string& listen = config.fleet.peer_listen;
  const bool is_local = IsLoopback(listen);
  if (config.security.credentials.empty()) {
    if (is_local) return absl::OkStatus();
    return Error("peer_listen", absl::StrCat(listen,
                                             " can be reached from other hosts, so it needs"
                                             " security.credentials: only a replica may call"));
  }
  if (config.tls.enabled()) {
    if (!config.tls.client_ca.empty()) return absl::OkStatus();
    return Error("peer_listen",
                 "needs tls.client_ca, whose authorities sign the certificates of"
                 " the other replicas");
  }
  if (config.fleet.token_file.empty()) {
    return Error("token_file",
                 "is needed, because the other replicas ask for a credential, and"
                 " without tls this replica has no certificate");
  }
  if (is_local || config.security.plaintext_tokens) return absl::OkStatus();
  return Error("peer_listen", absl::StrCat(listen,
                                           " would take tokens in plain text from other hosts; set"
                                           " tls.certificate, tls.key and tls.client_ca, or"
                                           " security.plaintext_tokens"));
}

}  // namespace

absl::Status ReadFleet(const YamlNode& node, FleetConfig* fleet) {
  return node.ReadMap({
      {"replica_id",
       [&](const YamlNode& value) {
         absl::Status status = value.Read(&fleet->replica_id);
         if (!status.ok() || fleet->replica_id.empty()) return status;
         const std::optional<std::string> error = IdError(fleet->replica_id);
         return error ? value.Error(*error) : absl::OkStatus();
       }},
      {"peer_listen",
       [&](const YamlNode& value) { return ReadAddress(value, &fleet->peer_listen); }},
      {"peer_address",
       [&](const YamlNode& value) { return ReadAddress(value, &fleet->peer_address); }},
      {"client_address",
       [&](const YamlNode& value) { return ReadAddress(value, &fleet->client_address); }},
      {"token_file", [&](const YamlNode& value) { return value.Read(&fleet->token_file); }},
      {"lease_ttl",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::Seconds(2), absl::Minutes(5), &fleet->lease_ttl);
       }},
      {"foreign",
       [&](const YamlNode& value) {
         return value.ReadOneOf({"fetch", "redirect"}, &fleet->foreign);
       }},
      {"min_residency",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::ZeroDuration(), absl::Hours(1), &fleet->min_residency);
       }},
  });
}

absl::Status CheckFleet(const ServerConfig& config) {
  const FleetConfig& fleet = config.fleet;
  if (!fleet.enabled()) {
    const char* key = nullptr;
    if (!fleet.replica_id.empty()) key = "replica_id";
    if (!fleet.peer_address.empty()) key = "peer_address";
    if (!fleet.client_address.empty()) key = "client_address";
    if (!fleet.token_file.empty()) key = "token_file";
    if (key == nullptr) return absl::OkStatus();
    return Error(key, "is for a replica of a fleet; fleet.peer_listen names no address");
  }
  if (const auto error = AddressError(fleet.peer_listen)) return Error("peer_listen", *error);
  if (const auto error = IdError(ReplicaIdOf(fleet))) return Error("replica_id", *error);
  if (!IsPostgresUrl(config.store_url)) {
    return Error("peer_listen",
                 "a fleet needs store.url = postgresql://..., which its replicas share");
  }
  if (absl::Status status = CheckAdvertised("peer_address", fleet.peer_address, "fleet.peer_listen",
                                            fleet.peer_listen);
      !status.ok()) {
    return status;
  }
  if (absl::Status status =
          CheckAdvertised("client_address", fleet.client_address, "listen", config.listen);
      !status.ok()) {
    return status;
  }
  return CheckCredentials(config);
}

std::string ReplicaIdOf(const FleetConfig& fleet) {
  if (!fleet.replica_id.empty()) return fleet.replica_id;
  std::array<char, 256> name{};  // a name of 255 bytes, and its end
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

std::string AdvertisedAddress(const std::string& configured, const std::string& listen, int port) {
  return configured.empty() ? absl::StrCat(HostOf(listen), ":", port) : configured;
}

}  // namespace longstream
