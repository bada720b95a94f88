// Finds tenants by their names.
#include "service/security/tenants/tenants.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream {

Tenants::Tenants(const std::vector<TenantConfig>& configured,
                 const std::shared_ptr<HostMemory>& all, const MonotonicClock& clock) {
  for (const TenantConfig& config : configured) {
    tenants_.push_back(
        std::make_shared<Tenant>(config, tenants_.size(), all, /*is_configured=*/true, clock));
  }
  if (!tenants_.empty()) return;
  tenants_.push_back(
      std::make_shared<Tenant>(TenantConfig{}, 0, all, /*is_configured=*/false, clock));
}

absl::StatusOr<std::shared_ptr<Tenant>> Tenants::Find(std::string_view name) const {
  for (const std::shared_ptr<Tenant>& tenant : tenants_) {
    if (tenant->name() == name) return tenant;
  }
  return absl::PermissionDeniedError(absl::StrCat("the server's configuration has no tenant '",
                                                  std::string(name),
                                                  "', which the credential names"));
}

}  // namespace longstream
