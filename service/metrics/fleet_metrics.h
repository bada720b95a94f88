// The Prometheus metrics of the fleet. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_FLEET_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_FLEET_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// Thread-safe. The registry must outlive it.
class FleetMetrics {
 public:
  explicit FleetMetrics(prometheus::Registry* registry);
  ~FleetMetrics();
  FleetMetrics(const FleetMetrics&) = delete;
  FleetMetrics& operator=(const FleetMetrics&) = delete;

  // A session of a replica whose lease was over was taken.
  void CountClaim();
  // A session was, or was not, handed from one living replica to another.
  void CountHandover(const std::string& outcome);
  // This replica has taken a session of a living one, so long after it has asked for it or was
  // offered it.
  void ObserveHandover(absl::Duration time);
  // The caches of a session have come: the time from their beginning to their end.
  void ObserveCaches(absl::Duration time);
  // A session goes from one replica to another without its caches.
  void CountLostCaches(const std::string& op, const std::string& reason);
  void CountSentBytes(uint64_t bytes);
  void CountReceivedBytes(uint64_t bytes);
  // The commit of a turn was refused, because the session had moved.
  void CountFencedCommit();
  void SetSessions(size_t owned);
  // Idle sessions that a drain has not handed over yet.
  void SetToHandOver(size_t sessions);
  void SetLeaseLeft(absl::Duration left);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_FLEET_METRICS_H_
