// Registers the metrics of the fleet in Prometheus, and updates them.
#include "service/metrics/fleet_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace longstream {

struct FleetMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : claims(prometheus::BuildCounter()
                   .Name("longstream_claims_total")
                   .Help("Sessions that were taken because their owner's lease was over")
                   .Register(*registry)
                   .Add({})),
        handovers(prometheus::BuildCounter()
                      .Name("longstream_handovers_total")
                      .Help("Sessions handed from one living replica to another, by outcome")
                      .Register(*registry)),
        seconds(prometheus::BuildHistogram()
                    .Name("longstream_handover_seconds")
                    .Help("Time of taking a session of a living replica, and of its caches alone")
                    .Register(*registry)),
        whole(AddSeconds("whole")),
        caches(AddSeconds("caches")),
        bytes(prometheus::BuildCounter()
                  .Name("longstream_handover_bytes_total")
                  .Help("Bytes of caches that were sent to peers and received from them")
                  .Register(*registry)),
        sent(bytes.Add({{"op", "sent"}})),
        received(bytes.Add({{"op", "received"}})),
        lost_caches(prometheus::BuildCounter()
                        .Name("longstream_handover_caches_lost_total")
                        .Help("Sessions that move between replicas without their caches")
                        .Register(*registry)),
        fenced(prometheus::BuildCounter()
                   .Name("longstream_fenced_commits_total")
                   .Help("Commits of turns that were refused because the session had moved")
                   .Register(*registry)
                   .Add({})),
        sessions(Gauge(registry, "longstream_fleet_sessions",
                       "Sessions that this replica owns and has in memory, or works for")),
        to_hand_over(Gauge(registry, "longstream_fleet_sessions_to_hand_over",
                           "Idle sessions that a replica that shuts down has not handed over yet")),
        lease_left(Gauge(registry, "longstream_fleet_lease_seconds",
                         "How long the lease of this replica holds")) {}

  static prometheus::Gauge& Gauge(prometheus::Registry* registry, const char* name,
                                  const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry).Add({});
  }

  prometheus::Histogram& AddSeconds(const char* part) {
    return seconds.Add({{"part", part}},
                       prometheus::Histogram::BucketBoundaries{0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                                               0.2, 0.5, 1, 2, 5, 10, 30, 60});
  }

  prometheus::Counter& claims;
  prometheus::Family<prometheus::Counter>& handovers;
  prometheus::Family<prometheus::Histogram>& seconds;
  prometheus::Histogram& whole;
  prometheus::Histogram& caches;
  prometheus::Family<prometheus::Counter>& bytes;
  prometheus::Counter& sent;
  prometheus::Counter& received;
  prometheus::Family<prometheus::Counter>& lost_caches;
  prometheus::Counter& fenced;
  prometheus::Gauge& sessions;
  prometheus::Gauge& to_hand_over;
  prometheus::Gauge& lease_left;
};

FleetMetrics::FleetMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

FleetMetrics::~FleetMetrics() = default;

void FleetMetrics::CountClaim() { families_->claims.Increment(); }
void FleetMetrics::CountHandover(const std::string& outcome) {
  families_->handovers.Add({{"outcome", outcome}}).Increment();
}
void FleetMetrics::ObserveHandover(absl::Duration time) {
  families_->whole.Observe(absl::ToDoubleSeconds(time));
}
void FleetMetrics::ObserveCaches(absl::Duration time) {
  families_->caches.Observe(absl::ToDoubleSeconds(time));
}
void FleetMetrics::CountLostCaches(const std::string& op, const std::string& reason) {
  families_->lost_caches.Add({{"op", op}, {"reason", reason}}).Increment();
}
void FleetMetrics::CountSentBytes(uint64_t bytes) {
  families_->sent.Increment(static_cast<double>(bytes));
}
void FleetMetrics::CountReceivedBytes(uint64_t bytes) {
  families_->received.Increment(static_cast<double>(bytes));
}
void FleetMetrics::CountFencedCommit() { families_->fenced.Increment(); }
void FleetMetrics::SetSessions(size_t owned) {
  families_->sessions.Set(static_cast<double>(owned));
}
void FleetMetrics::SetToHandOver(size_t sessions) {
  families_->to_hand_over.Set(static_cast<double>(sessions));
}
void FleetMetrics::SetLeaseLeft(absl::Duration left) {
  families_->lease_left.Set(absl::ToDoubleSeconds(left));
}

}  // namespace longstream
