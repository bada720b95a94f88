// The listening gRPC server: our service, health, reflection and channelz on one port.
#ifndef LONGSTREAM_SERVICE_SERVER_GRPC_SERVER_H_
#define LONGSTREAM_SERVICE_SERVER_GRPC_SERVER_H_

#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/serving/session_manager.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace longstream {

class ServiceImpl;

// Thread-safe.
class GrpcServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:50051";  // host:port; port 0: any free one
    int max_message_bytes = 64 << 20;        // of a request; more is RESOURCE_EXHAUSTED
    // The limit of two buffers, for each of them: messages that arrive and are not read yet, and
    // messages whose long texts wait for a thread. Beyond it gRPC reads no further, and calls end
    // with RESOURCE_EXHAUSTED.
    uint64_t max_transit_bytes = 1 << 30;
    int max_concurrent_streams = 1024;  // calls of one connection; a client holds back more
    // HTTP/2 pings: a host that has vanished is noticed after the two together, and its calls end.
    absl::Duration keepalive_time = absl::Minutes(1);  // without a frame from the client
    absl::Duration keepalive_timeout = absl::Seconds(20);
    // Least time between a client's own pings while nothing else is sent. A client that pings more
    // often is cut off. gRPC's default is five minutes; many proxies drop a silent connection
    // sooner.
    absl::Duration least_ping_interval = absl::Seconds(5);
  };

  // Listens from here on. UNAVAILABLE: the address cannot be bound. `models` and `sessions` outlive
  // the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options,
                                                           const ModelRegistry* models,
                                                           SessionManager* sessions);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const { return port_; }

  // grpc.health.v1: the status of one model, by its name. Before the first call each model of the
  // registry is NOT_SERVING. The server as a whole (the empty service name) serves while at least
  // one model does.
  void SetModelServing(const std::string& model, bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  // NOT_SERVING for everything.
  void SetNotServing() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the running calls of our service, at most until `deadline`. Then cancels the
  // remaining calls and closes every connection, idle ones too. When it returns, every call is
  // gone.
  void Shutdown(MonotonicTime deadline);

 private:
  GrpcServer();

  std::unique_ptr<ServiceImpl> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;

  absl::Mutex mutex_;
  std::set<std::string> serving_ ABSL_GUARDED_BY(mutex_);  // models
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_GRPC_SERVER_H_
