// Registers the metrics of the store in Prometheus, and updates them.
#include "service/metrics/store_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace longstream {

struct StoreMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : state(
            prometheus::BuildGauge()
                .Name("longstream_store_state")
                .Help("0: the store takes changes; 1: it is full; 2: read-only until the server is "
                      "started again; 3: a transaction takes longer than store.commit_timeout; "
                      "4: the database cannot be reached")
                .Register(*registry)
                .Add({})),
        bytes(prometheus::BuildGauge()
                  .Name("longstream_store_bytes")
                  .Help("Bytes of the store on the disk")
                  .Register(*registry)),
        // Half a millisecond is a fast disk, five milliseconds a usual one.
        commit_seconds(
            prometheus::BuildHistogram()
                .Name("longstream_store_commit_seconds")
                .Help("Time of a transaction of the store")
                .Register(*registry)
                .Add({}, prometheus::Histogram::BucketBoundaries{0.0005, 0.001, 0.002, 0.005, 0.01,
                                                                 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5,
                                                                 10, 30})),
        errors(prometheus::BuildCounter()
                   .Name("longstream_store_errors_total")
                   .Help("Changes that the store has failed to make")
                   .Register(*registry)) {}

  prometheus::Gauge& state;
  prometheus::Family<prometheus::Gauge>& bytes;
  prometheus::Histogram& commit_seconds;
  prometheus::Family<prometheus::Counter>& errors;
};

StoreMetrics::StoreMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

StoreMetrics::~StoreMetrics() = default;

void StoreMetrics::SetState(StoreStateMetric state) {
  families_->state.Set(static_cast<double>(state));
}

void StoreMetrics::SetBytes(const std::string& kind, uint64_t bytes) {
  families_->bytes.Add({{"kind", kind}}).Set(static_cast<double>(bytes));
}

void StoreMetrics::ObserveCommit(absl::Duration duration) {
  families_->commit_seconds.Observe(absl::ToDoubleSeconds(duration));
}

void StoreMetrics::CountError(const std::string& code) {
  families_->errors.Add({{"code", code}}).Increment();
}

}  // namespace longstream
