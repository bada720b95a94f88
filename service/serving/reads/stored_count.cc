// Asks the store for its sessions, and tells each tenant.
#include "service/serving/reads/stored_count.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace longstream {

absl::Status CountStoredSessions(store::SessionStore& store, const Tenants& tenants) {
  if (!tenants.are_configured()) return absl::OkStatus();
  const absl::StatusOr<std::map<std::string, uint64_t>> counts = store.CountSessions();
  if (!counts.ok()) return counts.status();
  for (const std::shared_ptr<Tenant>& tenant : tenants.all()) {
    const auto found = counts->find(tenant->name());
    tenant->CountStored(found != counts->end() ? found->second : 0);
  }
  return absl::OkStatus();
}

}  // namespace longstream
