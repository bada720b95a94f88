// Registers the metrics of tenants in Prometheus, and updates them.
#include "service/metrics/tenant_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "service/metrics/add_counters.h"

namespace longstream {
namespace {

prometheus::Family<prometheus::Gauge>& AddGauges(prometheus::Registry* registry, const char* name,
                                                 const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry);
}

void RaiseTo(uint64_t value, prometheus::Counter& counter) {
  counter.Increment(static_cast<double>(value) - counter.Value());
}

}  // namespace

TenantMetrics::TenantMetrics(prometheus::Registry* registry)
    : sessions_(AddGauges(registry, "longstream_tenant_sessions",
                          "Open sessions of a tenant, in memory and in the store")),
      bytes_(AddGauges(registry, "longstream_tenant_bytes",
                       "Bytes that a tenant's sessions and turns hold on the host and as caches")),
      turns_(AddGauges(registry, "longstream_tenant_turns", "Turns of a tenant that wait or run")),
      tokens_(AddCounters(registry, "longstream_tenant_tokens_total",
                          "Tokens of a tenant's prompts and answers")),
      refusals_(AddCounters(registry, "longstream_tenant_refusals_total",
                            "Calls of a tenant that were beyond one of its quotas")) {}

void TenantMetrics::Set(const std::string& tenant, const Use& use) {
  sessions_.Add({{"tenant", tenant}}).Set(static_cast<double>(use.sessions));
  bytes_.Add({{"tenant", tenant}, {"kind", "host"}}).Set(static_cast<double>(use.host_bytes));
  bytes_.Add({{"tenant", tenant}, {"kind", "cache"}}).Set(static_cast<double>(use.cache_bytes));
  turns_.Add({{"tenant", tenant}}).Set(static_cast<double>(use.turns));
  RaiseTo(use.tokens, tokens_.Add({{"tenant", tenant}}));
  for (const auto& [quota, count] : use.refusals) {
    RaiseTo(count, refusals_.Add({{"tenant", tenant}, {"quota", quota}}));
  }
}

}  // namespace longstream
