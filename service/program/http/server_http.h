// The HTTP listener of a running server.
#ifndef LONGSTREAM_SERVICE_PROGRAM_HTTP_SERVER_HTTP_H_
#define LONGSTREAM_SERVICE_PROGRAM_HTTP_SERVER_HTTP_H_

#include <prometheus/registry.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gateway/gateway.h"
#include "gateway/gateway_metrics.h"
#include "service/config/http_config.h"
#include "service/security/certificates.h"
#include "service/server/grpc_server.h"

namespace longstream {

// The gateway within the server's process. Thread-safe.
class ServerHttp {
 public:
  // Null if the configuration wants no listener. `certificates`: null: plain text. `server` and
  // `registry` must outlive it. UNAVAILABLE: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<ServerHttp>> Start(
      const HttpConfig& config, std::shared_ptr<const CurrentCertificates> certificates,
      ClientCertificates clients, prometheus::Registry* registry, GrpcServer* server);

  // The connections that a listener takes: as configured, but not more than a part of the process's
  // descriptors. 0: the configuration wants none.
  static size_t MostConnections(const HttpConfig& config);
  // The threads of a listener; 0: the configuration wants none.
  static size_t MostThreads(const HttpConfig& config);

  int port() const { return gateway_->port(); }
  // New clients go elsewhere. The answers that are running go on.
  void StopAccepting() { gateway_->StopAccepting(); }
  // Gives running answers this much time, then cancels them.
  void Shutdown(absl::Duration grace) { gateway_->Shutdown(grace); }

 private:
  explicit ServerHttp(prometheus::Registry* registry) : metrics_(registry) {}

  gateway::GatewayMetrics metrics_;
  std::unique_ptr<gateway::Gateway> gateway_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_HTTP_SERVER_HTTP_H_
