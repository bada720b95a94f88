// Registers the metrics of sessions in Prometheus, and updates them.
#include "service/metrics/session_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "service/metrics/add_counters.h"

namespace longstream {
namespace {

prometheus::Gauge& AddGauge(prometheus::Registry* registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry).Add({});
}

}  // namespace

SessionMetrics::SessionMetrics(prometheus::Registry* registry, uint64_t host_limit)
    : registry_(registry),
      host_bytes_(AddGauge(registry, "longstream_session_host_bytes",
                           "Bytes of the host's memory that sessions and turns hold for tokens and "
                           "conversations")),
      lost_(AddCounters(registry, "longstream_sessions_lost_total",
                        "Calls that failed because the log of their session is damaged")
                .Add({})),
      early_releases_(AddCounters(registry, "longstream_session_early_releases_total",
                                  "Idle sessions that left the memory for the store before their "
                                  "idle timeout, by what was short")),
      transfers_(AddCounters(registry, "longstream_session_transfers_total",
                             "Sessions exported to files and imported from files")),
      transfer_bytes_(AddCounters(registry, "longstream_session_transfer_bytes_total",
                                  "Bytes of the files of sessions exported and imported")),
      restores_(AddCounters(registry, "longstream_session_restores_total",
                            "Caches of sessions that were read back, or could not be")),
      saves_(AddCounters(registry, "longstream_session_saves_total",
                         "Caches of sessions that were written to the store, or could not be")),
      snapshot_bytes_(AddCounters(registry, "longstream_snapshot_bytes_total",
                                  "Bytes of caches written to the store and read from it")),
      snapshot_seconds_(prometheus::BuildHistogram()
                            .Name("longstream_snapshot_seconds")
                            .Help("Time of writing the caches of a turn to the store, and of "
                                  "reading the caches of a session")
                            .Register(*registry)) {
  for (const char* const reason : {"host_bytes", "quota", "places"}) {
    early_releases_.Add({{"reason", reason}});
  }
  AddGauge(registry, "longstream_session_host_limit_bytes",
           "The limit of longstream_session_host_bytes; 0: no limit")
      .Set(static_cast<double>(host_limit));
}

void SessionMetrics::CountLost() { lost_.Increment(); }

void SessionMetrics::CountEarlyRelease(const std::string& reason) {
  early_releases_.Add({{"reason", reason}}).Increment();
}

void SessionMetrics::SetTenant(const std::string& tenant, const TenantMetrics::Use& use) {
  if (!tenants_.has_value()) tenants_.emplace(registry_);
  tenants_->Set(tenant, use);
}

void SessionMetrics::CountTransfer(const std::string& op, const std::string& code, uint64_t bytes) {
  transfers_.Add({{"op", op}, {"code", code}}).Increment();
  transfer_bytes_.Add({{"op", op}}).Increment(static_cast<double>(bytes));
}

void SessionMetrics::CountRestore(const std::string& from, const std::string& outcome) {
  restores_.Add({{"from", from}, {"outcome", outcome}}).Increment();
}

void SessionMetrics::CountSave(const std::string& outcome) {
  saves_.Add({{"outcome", outcome}}).Increment();
}

void SessionMetrics::ObserveSnapshot(const std::string& op, uint64_t bytes, absl::Duration time) {
  snapshot_bytes_.Add({{"op", op}}).Increment(static_cast<double>(bytes));
  snapshot_seconds_
      .Add({{"op", op}}, prometheus::Histogram::BucketBoundaries{0.001, 0.002, 0.005, 0.01, 0.02,
                                                                 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10})
      .Observe(absl::ToDoubleSeconds(time));
}

void SessionMetrics::SetHostBytes(uint64_t bytes) { host_bytes_.Set(static_cast<double>(bytes)); }

}  // namespace longstream
