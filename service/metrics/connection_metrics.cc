// Registers the metrics of a port's connections in Prometheus, and updates them.
#include "service/metrics/connection_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>

namespace longstream {
namespace {

// In the order of RefusedConnection.
constexpr std::array kReasons = {"total", "peer", "descriptors", "timeout", "protocol"};

}  // namespace

struct ConnectionMetrics::Families {
  Families(prometheus::Registry* registry, const std::string& port)
      : open(prometheus::BuildGauge()
                 .Name("longstream_connections")
                 .Help("Open connections")
                 .Register(*registry)
                 .Add({{"port", port}})),
        accepted(prometheus::BuildCounter()
                     .Name("longstream_connections_accepted_total")
                     .Help("Connections that were accepted, also those that were refused then")
                     .Register(*registry)
                     .Add({{"port", port}})) {
    prometheus::Family<prometheus::Counter>& all =
        prometheus::BuildCounter()
            .Name("longstream_connections_refused_total")
            .Help("Connections that the server closed before it served a request on them")
            .Register(*registry);
    for (size_t i = 0; i < kReasons.size(); ++i) {
      refused[i] = &all.Add({{"port", port}, {"reason", kReasons[i]}});
    }
  }

  prometheus::Gauge& open;
  prometheus::Counter& accepted;
  std::array<prometheus::Counter*, kReasons.size()> refused{};
};

ConnectionMetrics::ConnectionMetrics(prometheus::Registry* registry, const std::string& port)
    : families_(std::make_unique<Families>(registry, port)) {}

ConnectionMetrics::~ConnectionMetrics() = default;

void ConnectionMetrics::SetOpen(size_t connections) {
  families_->open.Set(static_cast<double>(connections));
}
void ConnectionMetrics::CountAccepted() { families_->accepted.Increment(); }
void ConnectionMetrics::CountRefused(RefusedConnection reason) {
  families_->refused[static_cast<size_t>(reason)]->Increment();
}

}  // namespace longstream
