// The listener of the cluster: health for the kubelet, load reports for load balancers (ORCA) and
// for autoscalers (KEDA).
#ifndef LONGSTREAM_SERVICE_SERVER_CLUSTER_CLUSTER_SERVER_H_
#define LONGSTREAM_SERVICE_SERVER_CLUSTER_CLUSTER_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/load/load_meter.h"
#include "service/server/cluster/load_streams.h"
#include "service/server/cluster/orca_service.h"
#include "service/server/cluster/scaler_service.h"
#include "service/server/standard/health_service.h"
#include "service/server/transport/listener.h"
#include "service/wire/request_memory.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace longstream {

class ConnectionMetrics;

// Plain text, and asks nobody for a credential, because the kubelet has none. So nothing here tells
// of models, tenants, sessions or prompts. Thread-safe.
class ClusterServer {
 public:
  struct Options {
    std::string listen;  // host:port
    LoadStreamLimits streams = {};
    // Called when a call ends (service/interceptors/request_id.h).
    std::function<void(std::string_view request_id, std::string_view method,
                       const absl::Status& status)>
        on_call_end = nullptr;
    ConnectionMetrics* connection_metrics = nullptr;  // outlives the server; null: no metrics
  };

  // `meter` outlives the server. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<ClusterServer>> Start(const Options& options,
                                                              LoadMeter* meter);
  ~ClusterServer();
  ClusterServer(const ClusterServer&) = delete;
  ClusterServer& operator=(const ClusterServer&) = delete;

  int port() const { return port_; }
  // The paths of all methods.
  std::vector<std::string> methods() const;
  size_t open_streams() const { return orca_->open_streams() + scaler_->open_streams(); }

  // Whether clients of this server are served. The health service tells it under "ready" and the
  // name of the service of clients; false before the first call. Under "" and "live" it says
  // SERVING as long as the process runs.
  void SetReady(bool ready);

  // Cancels the calls and closes the port.
  void Shutdown();

 private:
  ClusterServer() = default;

  std::unique_ptr<RequestMemory> memory_;  // used by the services
  std::unique_ptr<HealthService> health_;
  std::unique_ptr<OrcaService> orca_;
  std::unique_ptr<ScalerService> scaler_;
  GatedServer served_;
  int port_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_CLUSTER_CLUSTER_SERVER_H_
