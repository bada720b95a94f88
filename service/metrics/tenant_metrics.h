// The Prometheus metrics of tenants. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_TENANT_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_TENANT_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
template <typename Metric>
class Family;
class Gauge;
class Registry;
}  // namespace prometheus

namespace longstream {

// Exists only where tenants are configured. Used by one thread. The registry must outlive it.
class TenantMetrics {
 public:
  explicit TenantMetrics(prometheus::Registry* registry);

  struct Use {
    uint64_t sessions = 0;
    uint64_t host_bytes = 0;
    uint64_t cache_bytes = 0;
    uint64_t turns = 0;
    uint64_t tokens = 0;  // since the start
    // By the name of the quota, since the start.
    std::vector<std::pair<std::string, uint64_t>> refusals = {};
  };
  void Set(const std::string& tenant, const Use& use);

 private:
  prometheus::Family<prometheus::Gauge>& sessions_;
  prometheus::Family<prometheus::Gauge>& bytes_;
  prometheus::Family<prometheus::Gauge>& turns_;
  prometheus::Family<prometheus::Counter>& tokens_;
  prometheus::Family<prometheus::Counter>& refusals_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_TENANT_METRICS_H_
