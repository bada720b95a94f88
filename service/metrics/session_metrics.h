// The Prometheus metrics of all sessions together. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_SESSION_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_SESSION_METRICS_H_

#include <cstdint>

namespace prometheus {
class Gauge;
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

 private:
  prometheus::Gauge& host_bytes_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_SESSION_METRICS_H_
