// Sums up the metrics of all models.
#ifndef LONGSTREAM_SERVICE_LOAD_LOAD_TOTALS_H_
#define LONGSTREAM_SERVICE_LOAD_LOAD_TOTALS_H_

#include <prometheus/metric_family.h>

#include <string_view>
#include <vector>

namespace longstream {

struct LoadTotals {
  double turns_running = 0;
  double turns_waiting = 0;
  double most_turns = 0;           // running and waiting turns of the model that has most
  double cache_usage = 0;          // of the model that uses most of its budget
  double session_bytes = 0;        // of the host's memory, that sessions hold
  double session_limit_bytes = 0;  // that they may hold
  // These only grow, unless a model is unloaded.
  double queue_seconds = 0;  // in which queued_turns got their first place in the batch
  double queued_turns = 0;
  double tokens = 0;
  double turns = 0;         // that ended
  double failed_turns = 0;  // that ended with a status of IsFailure
};

// `metrics`: of prometheus::Registry::Collect, which are those that Prometheus gets.
LoadTotals TotalsOf(const std::vector<prometheus::MetricFamily>& metrics);

// Whether a turn that ended with this status, such as "INTERNAL", was failed by the server: it
// broke, or it was too busy. Other statuses are the client's doing.
bool IsFailure(std::string_view code);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_LOAD_LOAD_TOTALS_H_
