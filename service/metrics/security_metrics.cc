// Registers the metrics of credentials and certificates in Prometheus, and updates them.
#include "service/metrics/security_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace longstream {

struct SecurityMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : reloads(prometheus::BuildCounter()
                    .Name("longstream_security_reloads_total")
                    .Help("Changes of the files of credentials and certificates")
                    .Register(*registry)),
        refused(prometheus::BuildCounter()
                    .Name("longstream_calls_refused_total")
                    .Help("Calls and scrapes that had no valid credential, or one that does not "
                          "allow them")
                    .Register(*registry)),
        expiry(prometheus::BuildGauge()
                   .Name("longstream_certificate_expiry_seconds")
                   .Help("When the certificate of a port ends, in seconds since 1970")
                   .Register(*registry)) {}

  prometheus::Family<prometheus::Counter>& reloads;
  prometheus::Family<prometheus::Counter>& refused;
  prometheus::Family<prometheus::Gauge>& expiry;
};

SecurityMetrics::SecurityMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

SecurityMetrics::~SecurityMetrics() = default;

void SecurityMetrics::CountReload(const std::string& kind, bool taken) {
  families_->reloads.Add({{"kind", kind}, {"outcome", taken ? "taken" : "refused"}}).Increment();
}

void SecurityMetrics::CountRefused(const std::string& code) {
  families_->refused.Add({{"code", code}}).Increment();
}

void SecurityMetrics::SetCertificateExpiry(const std::string& port, absl::Time expires) {
  families_->expiry.Add({{"port", port}}).Set(static_cast<double>(absl::ToUnixSeconds(expires)));
}

}  // namespace longstream
