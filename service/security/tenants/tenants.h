// The tenants of a server.
#ifndef LONGSTREAM_SERVICE_SECURITY_TENANTS_TENANTS_H_
#define LONGSTREAM_SERVICE_SECURITY_TENANTS_TENANTS_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/clock/monotonic_time.h"
#include "service/config/tenant_config.h"
#include "service/host_memory/host_memory.h"
#include "service/security/tenants/tenant.h"

namespace longstream {

// Does not change. Thread-safe.
class Tenants {
 public:
  // `configured`: empty: there is one tenant, with the name "" and without quotas. `all`: counts
  // the host's memory of all tenants. `clock`: as for Tenant.
  Tenants(const std::vector<TenantConfig>& configured, const std::shared_ptr<HostMemory>& all,
          const MonotonicClock& clock = MonotonicTime::Now);

  // Whether the configuration names tenants.
  bool are_configured() const { return tenants_.front()->is_configured(); }
  // PERMISSION_DENIED: the configuration does not name this tenant.
  absl::StatusOr<std::shared_ptr<Tenant>> Find(std::string_view name) const;
  // In the order of their indices.
  const std::vector<std::shared_ptr<Tenant>>& all() const { return tenants_; }

 private:
  std::vector<std::shared_ptr<Tenant>> tenants_;  // never empty
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_TENANTS_TENANTS_H_
