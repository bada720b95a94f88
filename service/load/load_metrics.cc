// Registers the metrics in Prometheus, and updates them.
#include "service/load/load_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <string>
#include <vector>

#include "service/load/load_signals.h"

namespace longstream {

struct LoadMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : cpu_seconds(prometheus::BuildCounter()
                        .Name("longstream_process_cpu_seconds_total")
                        .Help("Processor time that the process has used")
                        .Register(*registry)
                        .Add({})),
        cpu_limit(Gauge(registry, "longstream_process_cpu_limit",
                        "Processors that the process may use at the same time")),
        memory(Gauge(registry, "longstream_process_memory_bytes",
                     "Bytes of the host's memory that the process holds")),
        memory_limit(Gauge(registry, "longstream_process_memory_limit_bytes",
                           "Bytes of the host's memory that the process may use")) {
    for (const LoadSignal& signal : kLoadSignals) {
      signals.push_back(
          &Gauge(registry, std::string("longstream_load_") + signal.name, signal.meaning));
    }
  }

  static prometheus::Gauge& Gauge(prometheus::Registry* registry, const std::string& name,
                                  const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry).Add({});
  }

  prometheus::Counter& cpu_seconds;
  prometheus::Gauge& cpu_limit;
  prometheus::Gauge& memory;
  prometheus::Gauge& memory_limit;
  std::vector<prometheus::Gauge*> signals;  // in the order of kLoadSignals
};

LoadMetrics::LoadMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

LoadMetrics::~LoadMetrics() = default;

void LoadMetrics::Set(const Load& load, const ProcessUse& use) {
  families_->cpu_seconds.Increment(std::max(0.0, use.cpu_seconds - families_->cpu_seconds.Value()));
  families_->cpu_limit.Set(use.cpu_limit);
  families_->memory.Set(static_cast<double>(use.memory_bytes));
  families_->memory_limit.Set(static_cast<double>(use.memory_limit));
  for (size_t i = 0; i < kLoadSignals.size(); ++i) {
    families_->signals[i]->Set(load.*kLoadSignals[i].value);
  }
}

}  // namespace longstream
