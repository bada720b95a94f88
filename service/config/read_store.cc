// The keys of the store.
#include "service/config/read_store.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace longstream {
namespace {

// Returns an error if there is no driver for the store. A URL may contain a password, so the error
// does not repeat it.
std::optional<std::string> StoreError(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos || IsPostgresUrl(url)) return std::nullopt;
  return absl::StrCat("expected a directory or postgresql://..., found a URL of the kind '",
                      url.substr(0, scheme), "'");
}

}  // namespace

bool IsPostgresUrl(const std::string& url) {
  return url.starts_with("postgresql://") || url.starts_with("postgres://");
}

absl::Status ReadStore(const YamlNode& node, ServerConfig* config) {
  return node.ReadMap({
      {"url",
       [&](const YamlNode& value) {
         absl::Status status = value.Read(&config->store_url);
         const std::optional<std::string> error = StoreError(config->store_url);
         return status.ok() && error ? value.Error(*error) : status;
       }},
      {"commit_timeout",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::Milliseconds(100), absl::Hours(1),
                                   &config->store_commit_timeout);
       }},
      {"segments", [&](const YamlNode& value) { return value.Read(&config->store_segments); }},
      {"password_file",
       [&](const YamlNode& value) { return value.Read(&config->store_password_file); }},
      {"require_standby",
       [&](const YamlNode& value) { return value.ReadBool(&config->store_require_standby); }},
      {"snapshot_bytes",
       [&](const YamlNode& value) { return value.ReadBytes(&config->store_snapshot_bytes); }},
      {"keys", [&](const YamlNode& value) { return value.Read(&config->store_keys); }},
      {"compress",
       [&](const YamlNode& value) {
         return value.ReadOneOf({"none", "zstd"}, &config->store_compress);
       }},
  });
}

absl::Status CheckStore(const ServerConfig& config) {
  if (const auto error = StoreError(config.store_url)) {
    return absl::InvalidArgumentError(absl::StrCat("store.url: ", *error));
  }
  if (!IsPostgresUrl(config.store_url)) {
    const char* key = nullptr;
    if (!config.store_segments.empty()) key = "segments";
    if (!config.store_password_file.empty()) key = "password_file";
    if (config.store_require_standby) key = "require_standby";
    if (key != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("store.", key, ": is for a store in PostgreSQL; store.url names none"));
    }
  }
  if (!config.store_keys.empty() && config.store_url.empty()) {
    return absl::InvalidArgumentError("store.keys: there is no store; name one with store.url");
  }
  if (!config.store_keys.empty()) return absl::OkStatus();
  const std::string needs = " needs a key file; name one with store.keys";
  if (config.store_compress != "none") {
    return absl::InvalidArgumentError(
        absl::StrCat("store.compress: '", config.store_compress, "'", needs));
  }
  if (config.imports != "any") {
    return absl::InvalidArgumentError(
        absl::StrCat("sessions.imports: '", config.imports, "'", needs));
  }
  return absl::OkStatus();
}

}  // namespace longstream
