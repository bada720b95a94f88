// The keys of the operators' listener.
#include "service/config/read_admin.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "service/config/address.h"
#include "service/security/loopback.h"

namespace longstream {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kKey = "admin.listen: ";

// Returns an error unless the text is unix:PATH or host:port.
std::optional<std::string> AdminAddressError(std::string_view text) {
  if (!text.starts_with(kUnix)) return AddressError(text);
  if (text.size() > kUnix.size()) return std::nullopt;
  return "expected unix:PATH or host:port, found 'unix:'";
}

absl::Status Error(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(kKey.data(), kKey.size()),
                                                 absl::string_view(what.data(), what.size())));
}

}  // namespace

absl::Status ReadAdmin(const YamlNode& node, ServerConfig* config) {
  return node.ReadMap({
      {"listen",
       [&](const YamlNode& value) {
         absl::Status status = value.Read(&config->admin_listen);
         if (!status.ok() || config->admin_listen.empty()) return status;
         const std::optional<std::string> error = AdminAddressError(config->admin_listen);
         return error ? value.Error(*error) : absl::OkStatus();
       }},
      {"model_directories",
       [&](const YamlNode& value) {
         config->admin_model_directories.clear();
         return value.ReadList([&](const YamlNode& entry) {
           std::string directory;
           absl::Status status = entry.Read(&directory);
           if (status.ok() && directory.empty()) return entry.Error("expected a directory");
           config->admin_model_directories.push_back(std::move(directory));
           return status;
         });
       }},
  });
}

absl::Status CheckAdmin(const ServerConfig& config) {
  const std::string& address = config.admin_listen;
  if (address.empty()) return absl::OkStatus();
  if (const auto error = AdminAddressError(address)) return Error(*error);
  if (address.starts_with(kUnix)) return absl::OkStatus();
  if (config.security.credentials.empty()) {
    return Error(absl::StrCat(address,
                              " is no Unix socket, so it needs security.credentials: only an"
                              " operator may load models"));
  }
  if (config.tls.enabled() || config.security.plaintext_tokens || IsLoopback(address)) {
    return absl::OkStatus();
  }
  return Error(absl::StrCat(address,
                            " would take tokens in plain text from other hosts; set"
                            " tls.certificate and tls.key, or security.plaintext_tokens"));
}

}  // namespace longstream
