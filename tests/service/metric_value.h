// Reads metrics from a registry, for tests.
#ifndef LONGSTREAM_TESTS_SERVICE_METRIC_VALUE_H_
#define LONGSTREAM_TESTS_SERVICE_METRIC_VALUE_H_

#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

namespace longstream {

// Calls `visit` for each metric that has this name and at least these labels.
template <typename Visit>
void VisitMetrics(const prometheus::Registry& registry, const std::string& name,
                  const std::map<std::string, std::string>& labels, const Visit& visit) {
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      const bool matches = std::all_of(labels.begin(), labels.end(), [&](const auto& wanted) {
        return std::any_of(metric.label.begin(), metric.label.end(), [&](const auto& label) {
          return label.name == wanted.first && label.value == wanted.second;
        });
      });
      if (matches) visit(metric);
    }
  }
}

// Returns the sum of the counters or gauges that have this name and at least these labels.
inline double MetricValue(const prometheus::Registry& registry, const std::string& name,
                          const std::map<std::string, std::string>& labels = {}) {
  double sum = 0;
  VisitMetrics(registry, name, labels, [&](const prometheus::ClientMetric& metric) {
    sum += metric.counter.value + metric.gauge.value;
  });
  return sum;
}

// Returns the number of values that the histograms with this name and at least these labels have.
inline uint64_t ObservedCount(const prometheus::Registry& registry, const std::string& name,
                              const std::map<std::string, std::string>& labels = {}) {
  uint64_t count = 0;
  VisitMetrics(registry, name, labels, [&](const prometheus::ClientMetric& metric) {
    count += metric.histogram.sample_count;
  });
  return count;
}

// Waits until the metric has the value. Returns the last value.
inline double WaitForMetric(const prometheus::Registry& registry, double value,
                            const std::string& name,
                            const std::map<std::string, std::string>& labels = {}) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  double last = MetricValue(registry, name, labels);
  while (last != value && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    last = MetricValue(registry, name, labels);
  }
  return last;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_METRIC_VALUE_H_
