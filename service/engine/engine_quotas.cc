// The caches of sessions in the quotas of their tenants.
#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "service/engine/engine.h"
#include "service/engine/policy/eviction.h"
#include "service/security/tenants/retry_after.h"

namespace longstream {

bool Engine::WithQuota(const Tenant* tenant, uint64_t more, const Session* except,
                       absl::FunctionRef<bool()> fits) {
  if (fits()) return true;
  const IdleCaches idle = FindIdle(except);
  uint64_t freed = 0;
  for (Session* const session : idle.sessions) {
    if (session->tenant().get() == tenant) freed += session->cache_charge().bytes();
  }
  if (!tenant->WouldFit(more, freed)) return false;
  for (const uint32_t i : EvictionOrder(idle.candidates, Costs())) {
    if (idle.sessions[i]->tenant().get() != tenant) continue;
    Evict(*idle.sessions[i], "quota");
    if (fits()) return true;
  }
  return false;
}

absl::Status Engine::ChargeCaches(const std::shared_ptr<Tenant>& tenant, const Session* except,
                                  CacheCharge& charge, uint64_t bytes) {
  const uint64_t more = bytes - std::min(bytes, charge.bytes());
  const bool fits = WithQuota(tenant.get(), more, except, [&] { return charge.TryGrow(bytes); });
  if (fits) return absl::OkStatus();
  absl::Status refused = tenant->RefuseCaches(more);
  // The caches of another model are not evicted for this one, so waiting may be in vain.
  const uint64_t own = CountCaches()[tenant->index()].all;
  return tenant->WouldFit(more, own) ? refused : WithRetryAfter(refused, absl::InfiniteDuration());
}

void Engine::EvictToQuotas() {
  const auto is_over = [](const std::shared_ptr<Tenant>& tenant) { return tenant->OverBytes(); };
  if (std::none_of(options_.tenants.begin(), options_.tenants.end(), is_over)) return;
  const IdleCaches idle = FindIdle(nullptr);
  for (const uint32_t i : EvictionOrder(idle.candidates, Costs())) {
    Session& session = *idle.sessions[i];
    if (session.tenant() != nullptr && is_over(session.tenant())) Evict(session, "quota");
  }
}

}  // namespace longstream
