// Registers the metrics of sessions in Prometheus, and updates them.
#include "service/metrics/session_metrics.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace longstream {
namespace {

prometheus::Gauge& AddGauge(prometheus::Registry* registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry).Add({});
}

}  // namespace

SessionMetrics::SessionMetrics(prometheus::Registry* registry, uint64_t host_limit)
    : host_bytes_(AddGauge(registry, "longstream_session_host_bytes",
                           "Bytes of the host's memory that sessions and turns hold for tokens and "
                           "conversations")) {
  AddGauge(registry, "longstream_session_host_limit_bytes",
           "The limit of longstream_session_host_bytes; 0: no limit")
      .Set(static_cast<double>(host_limit));
}

void SessionMetrics::SetHostBytes(uint64_t bytes) { host_bytes_.Set(static_cast<double>(bytes)); }

}  // namespace longstream
