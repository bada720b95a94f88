// The cluster's part of a running server: the meter of its load, and the listener that tells it.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_CLUSTER_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_CLUSTER_H_

#include <prometheus/registry.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "service/config/server_config.h"
#include "service/load/load_meter.h"
#include "service/metrics/connection_metrics.h"
#include "service/server/cluster/cluster_server.h"
#include "service/server/grpc_server.h"

namespace longstream {

// Outlives the server of clients, so that the kubelet still reaches it while that one ends.
class ServerCluster {
 public:
  // Measures the load in any case, for Prometheus. `memory_bytes`: of the host, that the server may
  // use. `clients`: of the server of clients, which tells the cluster's server whether it serves.
  // Errors are those of ClusterServer::Start.
  static absl::StatusOr<std::unique_ptr<ServerCluster>> Start(
      const ServerConfig& config, const std::shared_ptr<prometheus::Registry>& registry,
      uint64_t memory_bytes, GrpcServer::Options* clients);

  // 0: the configuration wants no listener.
  int port() const { return server_ == nullptr ? 0 : server_->port(); }

 private:
  ServerCluster(const std::shared_ptr<prometheus::Registry>& registry,
                const LoadMeter::Options& options)
      : meter_(registry, options), connections_(registry.get(), "cluster") {}

  LoadMeter meter_;
  ConnectionMetrics connections_;
  std::unique_ptr<ClusterServer> server_;  // ends before the members above, which it uses
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_CLUSTER_H_
