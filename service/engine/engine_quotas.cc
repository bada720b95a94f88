// The caches of sessions in the quotas of their tenants.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "service/engine/engine.h"
#include "service/engine/policy/admission.h"
#include "service/engine/policy/eviction.h"
#include "service/errors/retry_after.h"

namespace longstream {
namespace {

// The refusal for caches of `more` bytes. `of_model`: the tenant's caches that may go while the
// call waits. Those of another model are not evicted for this one, so waiting may be in vain,
// unless an export or import ends meanwhile.
absl::Status Refusal(Tenant& tenant, uint64_t more, uint64_t of_model) {
  absl::Status refused = tenant.RefuseCaches(more);
  if (tenant.WouldFit(more, of_model) || tenant.use().transfers > 0) return refused;
  return WithRetryAfter(std::move(refused), absl::InfiniteDuration());
}

}  // namespace

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
  return Refusal(*tenant, more, CountCaches()[tenant->index()].all);
}

std::optional<Engine::Admission> Engine::TryQuota(ActiveTurn& turn, uint64_t bytes,
                                                  AdmissionRound& round) {
  CacheCharge& charge = turn.cache_charge();
  if (charge.TryGrow(bytes)) return std::nullopt;
  const std::shared_ptr<Tenant>& tenant = turn.session().tenant();
  const uint64_t own = charge.bytes();
  const uint64_t more = bytes - own;
  const AdmissionRound::TenantCaches caches =
      round.CachesOf(turn.tenant(), [this] { return CountCaches(); });
  // The turn's own caches are among the idle ones, unless they came back some seconds ago.
  const bool is_own_safe = IsSafe(turn.caches_restored_at(), MonotonicTime::Now());
  const uint64_t idle = caches.idle - (is_own_safe ? 0 : std::min(caches.idle, own));
  if (tenant->WouldFit(more, idle)) {
    round.ForgetCaches();
    const bool fits =
        WithQuota(tenant.get(), more, &turn.session(), [&] { return charge.TryGrow(bytes); });
    if (fits) return std::nullopt;
  }
  // Caches of the tenant's other sessions go when their turns end, or some seconds after they came
  // back.
  const uint64_t of_others = caches.all - std::min(caches.all, own);
  if (tenant->WouldFit(more, of_others)) {
    round.WaitForTenant(turn.times_overtaken());
    return Admission::kWaits;
  }
  turn.Abort(Refusal(*tenant, more, of_others));
  return Admission::kRefused;
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
