// Serves the process's metrics to Prometheus over HTTP, on a port of its own.
#ifndef LONGSTREAM_SERVICE_METRICS_METRICS_SERVER_H_
#define LONGSTREAM_SERVICE_METRICS_METRICS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
class Registry;
}  // namespace prometheus

namespace longstream {

// Answers GET /metrics in Prometheus's text format. Thread-safe.
class MetricsServer {
 public:
  // `listen`: host:port. Port 0 takes any free port. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& listen, const std::shared_ptr<prometheus::Registry>& registry);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }

 private:
  MetricsServer() = default;

  std::unique_ptr<prometheus::Exposer> exposer_;
  int port_ = 0;
};

// Adds the metric longstream_build_info with the label `version`. Its value is 1.
void AddBuildInfo(prometheus::Registry* registry, const std::string& version);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_METRICS_SERVER_H_
