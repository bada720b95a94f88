// Finds the metrics by their names.
#include "service/load/load_totals.h"

#include <algorithm>
#include <map>
#include <string>

namespace longstream {
namespace {

std::string_view LabelOf(const prometheus::ClientMetric& metric, std::string_view name) {
  for (const prometheus::ClientMetric::Label& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return {};
}

// Tells the versions of a model apart, which have caches and batches of their own.
std::string ModelOf(const prometheus::ClientMetric& metric) {
  std::string model(LabelOf(metric, "model"));
  model += '\0';
  return model.append(LabelOf(metric, "version"));
}

using ByModel = std::map<std::string, double>;

void AddTo(ByModel* sums, const prometheus::MetricFamily& family) {
  for (const prometheus::ClientMetric& metric : family.metric) {
    (*sums)[ModelOf(metric)] += metric.gauge.value;
  }
}

double Most(const ByModel& sums) {
  double most = 0;
  for (const auto& [model, sum] : sums) most = std::max(most, sum);
  return most;
}

double GaugeSum(const prometheus::MetricFamily& family) {
  double sum = 0;
  for (const prometheus::ClientMetric& metric : family.metric) sum += metric.gauge.value;
  return sum;
}

double CounterSum(const prometheus::MetricFamily& family) {
  double sum = 0;
  for (const prometheus::ClientMetric& metric : family.metric) sum += metric.counter.value;
  return sum;
}

}  // namespace

bool IsFailure(std::string_view code) {
  return code == "INTERNAL" || code == "UNKNOWN" || code == "UNAVAILABLE" || code == "DATA_LOSS" ||
         code == "RESOURCE_EXHAUSTED";
}

LoadTotals TotalsOf(const std::vector<prometheus::MetricFamily>& metrics) {
  LoadTotals totals;
  double parked = 0;
  ByModel turns, usage;
  for (const prometheus::MetricFamily& family : metrics) {
    if (family.name == "longstream_requests_running") {
      totals.turns_running = GaugeSum(family);
      AddTo(&turns, family);
    } else if (family.name == "longstream_requests_waiting") {
      totals.turns_waiting = GaugeSum(family);
      AddTo(&turns, family);
    } else if (family.name == "longstream_requests_parked") {
      parked = GaugeSum(family);
    } else if (family.name == "longstream_cache_usage_ratio") {
      AddTo(&usage, family);
    } else if (family.name == "longstream_session_host_bytes") {
      totals.session_bytes = GaugeSum(family);
    } else if (family.name == "longstream_session_host_limit_bytes") {
      totals.session_limit_bytes = GaugeSum(family);
    } else if (family.name == "longstream_request_queue_seconds") {
      for (const prometheus::ClientMetric& metric : family.metric) {
        totals.queue_seconds += metric.histogram.sample_sum;
        totals.queued_turns += static_cast<double>(metric.histogram.sample_count);
      }
    } else if (family.name == "longstream_generated_tokens_total") {
      totals.tokens = CounterSum(family);
    } else if (family.name == "longstream_requests_total") {
      totals.turns = CounterSum(family);
      for (const prometheus::ClientMetric& metric : family.metric) {
        if (IsFailure(LabelOf(metric, "code"))) totals.failed_turns += metric.counter.value;
      }
    }
  }
  // Parked turns were admitted, and wait all the same. The metrics are read one after the other.
  totals.turns_running = std::max(0.0, totals.turns_running - parked);
  totals.turns_waiting += parked;
  totals.most_turns = Most(turns);
  totals.cache_usage = Most(usage);
  return totals;
}

}  // namespace longstream
