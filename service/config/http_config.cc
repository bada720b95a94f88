#include "service/config/http_config.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/config/address.h"
#include "service/security/origin.h"

namespace longstream {
namespace {

absl::Status ReadBodyBytes(const YamlNode& node, uint64_t* bytes) {
  constexpr uint64_t kLeast = 1 << 10;
  constexpr uint64_t kMost = 1 << 30;
  if (absl::Status status = node.ReadBytes(bytes); !status.ok()) return status;
  if (*bytes >= kLeast && *bytes <= kMost) return absl::OkStatus();
  return node.Error(absl::StrCat("expected 1KiB to 1GiB, found ", *bytes, " bytes"));
}

}  // namespace

absl::Status ReadHttp(const YamlNode& node, HttpConfig* http) {
  constexpr uint64_t kMost = 1 << 16;
  return node.ReadMap({
      {"listen",
       [&](const YamlNode& value) {
         absl::Status status = value.Read(&http->listen);
         if (!status.ok() || http->listen.empty()) return status;
         const std::optional<std::string> error = AddressError(http->listen);
         return error ? value.Error(*error) : absl::OkStatus();
       }},
      {"max_connections",
       [&](const YamlNode& value) { return value.Read(1, kMost, &http->max_connections); }},
      {"max_requests",
       [&](const YamlNode& value) { return value.Read(1, kMost, &http->max_requests); }},
      {"max_body_bytes",
       [&](const YamlNode& value) { return ReadBodyBytes(value, &http->max_body_bytes); }},
      {"max_sessions",
       [&](const YamlNode& value) { return value.Read(1, 1 << 24, &http->max_sessions); }},
      {"idle_timeout",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::Seconds(1), absl::Hours(24), &http->idle_timeout);
       }},
      {"durable", [&](const YamlNode& value) { return value.ReadBool(&http->durable); }},
      {"ttl",
       [&](const YamlNode& value) {
         return value.ReadDuration(absl::Minutes(1), absl::Hours(24 * 365), &http->ttl);
       }},
      {"default_max_tokens",
       [&](const YamlNode& value) {
         return value.Read(0, std::numeric_limits<uint32_t>::max(), &http->default_max_tokens);
       }},
      {"page", [&](const YamlNode& value) { return value.ReadBool(&http->page); }},
      {"allowed_origins",
       [&](const YamlNode& value) {
         http->allowed_origins.clear();
         return value.ReadList([&](const YamlNode& entry) {
           std::string origin;
           if (absl::Status status = entry.Read(&origin); !status.ok()) return status;
           if (const auto error = OriginError(origin)) return entry.Error(*error);
           http->allowed_origins.push_back(std::move(origin));
           return absl::OkStatus();
         });
       }},
      {"tls", [&](const YamlNode& value) { return ReadTls(value, &http->tls); }},
  });
}

}  // namespace longstream
