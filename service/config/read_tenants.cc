// The keys of a tenant, their types and their limits.
#include "service/config/read_tenants.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/security/credentials.h"

namespace longstream {
namespace {

// The name is also a label in the metrics, and a part of rows in the file of credentials.
absl::Status ReadTenantName(const YamlNode& node, std::string* name) {
  if (absl::Status status = node.Read(name); !status.ok()) return status;
  if (IsCredentialName(*name)) return absl::OkStatus();
  return node.Error(absl::StrCat(
      "expected 1 to 64 letters, digits, dots, hyphens and underscores, found '", *name, "'"));
}

absl::Status ReadTenant(const YamlNode& node, TenantConfig* tenant) {
  constexpr uint32_t kMostWeight = 1000;
  // So many can be counted exactly, and given back, without an overflow.
  constexpr uint64_t kMostTokens = uint64_t{1} << 40;
  TenantQuotas& quotas = tenant->quotas;
  return node.ReadMap({
      {"name", [&](const YamlNode& value) { return ReadTenantName(value, &tenant->name); }},
      {"weight",
       [&](const YamlNode& value) { return value.Read(1, kMostWeight, &tenant->weight); }},
      {"sessions", [&](const YamlNode& value) { return value.Read(0, 1 << 24, &quotas.sessions); }},
      {"session_bytes",
       [&](const YamlNode& value) { return value.ReadBytes(&quotas.session_bytes); }},
      {"tokens_per_minute",
       [&](const YamlNode& value) {
         return value.Read(0, kMostTokens, &quotas.tokens_per_minute);
       }},
      {"turns", [&](const YamlNode& value) { return value.Read(0, 1 << 20, &quotas.turns); }},
      {"transfers",
       [&](const YamlNode& value) { return value.Read(0, 1 << 20, &quotas.transfers); }},
  });
}

}  // namespace

absl::Status ReadTenants(const YamlNode& node, std::vector<TenantConfig>* tenants) {
  constexpr size_t kMost = 1000;
  return node.ReadList([&](const YamlNode& entry) {
    TenantConfig tenant;
    if (absl::Status status = ReadTenant(entry, &tenant); !status.ok()) return status;
    if (tenant.name.empty()) return entry.Error("a tenant needs the key name");
    for (const TenantConfig& other : *tenants) {
      if (other.name == tenant.name) {
        return entry.Error(absl::StrCat("two tenants are named ", tenant.name));
      }
    }
    if (tenants->size() == kMost) {
      return entry.Error(absl::StrCat("expected at most ", kMost, " tenants"));
    }
    tenants->push_back(std::move(tenant));
    return absl::OkStatus();
  });
}

}  // namespace longstream
