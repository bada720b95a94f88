// The keys of the store.
#include "service/config/read_store.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace longstream {
namespace {

// Returns an error if there is no driver for the store. A URL may contain a password, so the error
// does not repeat it.
std::optional<std::string> StoreError(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::nullopt;
  return absl::StrCat("expected a directory, found a URL of the kind '",
                      std::string(url.substr(0, scheme)), "'");
}

}  // namespace

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
