// Uses the HTTP exposer of prometheus-cpp.
#include "service/metrics/metrics_server.h"

#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <exception>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longstream {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& listen, const std::shared_ptr<prometheus::Registry>& registry) {
  std::unique_ptr<MetricsServer> server(new MetricsServer());
  try {
    // A connection that sends nothing occupies one thread until its timeout.
    server->exposer_ = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", listen, "num_threads", "4", "request_timeout_ms", "2000"});
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("metrics_listen: cannot bind ", listen, ": ", error.what()));
  }
  // The exposer only keeps a weak pointer to the registry, so the owner of the registry decides its
  // lifetime.
  server->exposer_->RegisterCollectable(registry);
  const std::vector<int> ports = server->exposer_->GetListeningPorts();
  server->port_ = ports.empty() ? 0 : ports.front();
  return server;
}

MetricsServer::~MetricsServer() = default;

void AddBuildInfo(prometheus::Registry* registry, const std::string& version) {
  prometheus::BuildGauge()
      .Name("longstream_build_info")
      .Help("Always 1; the labels hold the version")
      .Register(*registry)
      .Add({{"version", version}})
      .Set(1);
}

}  // namespace longstream
