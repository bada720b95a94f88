// The Prometheus metrics of all sessions together. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_SESSION_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_SESSION_METRICS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "service/metrics/tenant_metrics.h"

namespace prometheus {
class Counter;
template <typename Metric>
class Family;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace longstream {

// Thread-safe. The registry must outlive it.
class SessionMetrics {
 public:
  // `host_limit`: how many bytes of the host's memory sessions and turns may hold. 0: no limit.
  SessionMetrics(prometheus::Registry* registry, uint64_t host_limit);

  // `bytes`: held by sessions and turns in the host's memory.
  void SetHostBytes(uint64_t bytes);
  // A session left the memory for the store before its idle timeout. `reason`: what was short.
  void CountEarlyRelease(const std::string& reason);
  // A call ended with DATA_LOSS: the log of its session is damaged.
  void CountLost();
  // Tells the use of a tenant. The metrics of tenants exist from the first call on. One thread may
  // call it.
  void SetTenant(const std::string& tenant, const TenantMetrics::Use& use);
  // A session was exported or imported, or could not be. `op`: "export" or "import". `code`: the
  // name of the status, such as "OK". `bytes`: of the file, as far as it was transferred.
  void CountTransfer(const std::string& op, const std::string& code, uint64_t bytes);
  // Caches were read from `from`, "store" or "peer", or could not be. `outcome`: "ok" or why not.
  void CountRestore(const std::string& from, const std::string& outcome);
  // Caches were written to the store, or could not be. `outcome` as for CountRestore.
  void CountSave(const std::string& outcome);
  // A snapshot was written or read: `op` is "write" or "read".
  void ObserveSnapshot(const std::string& op, uint64_t bytes, absl::Duration time);

 private:
  prometheus::Registry* const registry_;
  std::optional<TenantMetrics> tenants_;
  prometheus::Gauge& host_bytes_;
  prometheus::Counter& lost_;
  prometheus::Family<prometheus::Counter>& early_releases_;
  prometheus::Family<prometheus::Counter>& transfers_;
  prometheus::Family<prometheus::Counter>& transfer_bytes_;
  prometheus::Family<prometheus::Counter>& restores_;
  prometheus::Family<prometheus::Counter>& saves_;
  prometheus::Family<prometheus::Counter>& snapshot_bytes_;
  prometheus::Family<prometheus::Histogram>& snapshot_seconds_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_SESSION_METRICS_H_
