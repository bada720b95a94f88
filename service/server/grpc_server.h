// The listening gRPC server: our service, health and reflection on one port, and channelz if
// wanted.
#ifndef LONGSTREAM_SERVICE_SERVER_GRPC_SERVER_H_
#define LONGSTREAM_SERVICE_SERVER_GRPC_SERVER_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/security/certificates.h"
#include "service/server/compare/compare_limits.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/session_manager.h"

namespace grpc {
class Channel;
class Server;
}  // namespace grpc

namespace longstream {

class ConnectionMetrics;
class FirstRequests;
class Guard;
class Http2Gate;
class HealthService;
class ReflectionService;
class Relays;
class RequestMemory;
class ServiceImpl;

// Thread-safe.
class GrpcServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:50051";  // host:port; port 0 takes any free port
    int max_message_bytes = 64 << 20;        // a larger request gets RESOURCE_EXHAUSTED
    // The limit for each of three amounts: received bytes that were not read yet, the memory of
    // requests that are being decoded and read, and the memory of requests whose long texts wait
    // for a thread. At the first limit, gRPC stops reading. At the others, calls end with
    // RESOURCE_EXHAUSTED.
    uint64_t max_transit_bytes = 1 << 30;
    int max_concurrent_streams = 1024;  // calls per connection; the client delays further ones
    // HTTP/2 pings. The server notices a vanished host after the sum of the two times, and ends its
    // calls.
    absl::Duration keepalive_time = absl::Minutes(1);  // silence before a ping
    absl::Duration keepalive_timeout = absl::Seconds(20);
    // The least time between two pings of a client on a connection without other traffic. The
    // server disconnects a client that pings more often. gRPC's default is five minutes, but many
    // proxies drop a silent connection sooner, so clients must be able to ping more often.
    absl::Duration least_ping_interval = absl::Seconds(5);
    // Called when a call ends (service/interceptors/request_id.h); may be
    // empty.
    std::function<void(std::string_view request_id, std::string_view method,
                       const absl::Status& status)>
        on_call_end = nullptr;
    // Limits of connections (service/connections/http2_gate.h).
    uint64_t max_connections = 0;              // 0: as many as the descriptors of the process allow
    uint64_t max_connections_per_address = 0;  // 0: no limit
    absl::Duration handshake_timeout = absl::Seconds(10);  // for a client's preface and SETTINGS
    absl::Duration first_request_timeout = absl::Seconds(30);  // until its first request begins
    // A connection without calls is closed after this time, at the latest after twice this time.
    absl::Duration idle_timeout = absl::Minutes(2);
    // Whether to serve gRPC's channelz. It parses its requests without limits on memory, and tells
    // each client about the connections of the others.
    bool channelz = false;
    ConnectionMetrics* connection_metrics = nullptr;  // outlives the server; null: no metrics
    // Decides who may call which method; outlives the server. Null: everybody may call all.
    // Channelz is gRPC's own, so it cannot be offered with a guard.
    const Guard* guard = nullptr;
    // For TLS. Null: the port takes plain text.
    std::shared_ptr<const CurrentCertificates> certificates = nullptr;
    ClientCertificates client_certificates = ClientCertificates::kNone;
    // The longest time for which a client with a certificate begins calls on one connection.
    absl::Duration max_connection_age = absl::Hours(1);
    CompareLimits compare = {};
    Relays* relays = nullptr;  // as for NewGenerateReactor; outlives the server
    // Told whether at least one model is ready, and each model of the start has been or was
    // unloaded; also if it is the same as before. Outlives the server. Must not call the server.
    // May be empty.
    std::function<void(bool serving)> on_serving = nullptr;
  };

  // Starts a server that listens. `models` and `sessions` must outlive it. UNAVAILABLE: the address
  // cannot be bound. RESOURCE_EXHAUSTED: the process has no descriptor left. FAILED_PRECONDITION: a
  // method has no row in the AccessTable. INVALID_ARGUMENT: channelz with a guard.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options,
                                                           const ModelRegistry* models,
                                                           SessionManager* sessions);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const { return port_; }
  // A channel to the server within the process, for its whole life. Its calls need credentials like
  // others, and have no certificate.
  std::shared_ptr<grpc::Channel> NewChannel();
  // The paths of all methods that are registered in gRPC, channelz left out.
  std::vector<std::string> methods() const;

  // Sets the status of one model in the health service (grpc.health.v1). Before the first call,
  // each model of the registry is NOT_SERVING. The server as a whole (the empty service name) is
  // SERVING while at least one model is. An alias of SessionManager::aliases() is SERVING while
  // each arm is that has a weight above 0.
  void SetModelServing(const std::string& model, bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  // The model was unloaded: the health service does not know it any more.
  void ForgetModel(const std::string& model) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the status of the store of sessions, the service "longstream.store" in the health service,
  // which does not know this service before the first call.
  void SetStoreServing(bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets every status to NOT_SERVING.
  void SetNotServing() ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes the port. Clients cannot connect any more. Connections that are open stay open.
  void StopAccepting();

  // Stops accepting. Waits for the running calls of our service, at most until `deadline`. Then
  // tells the clients that the server goes away. A second later it cancels the remaining calls and
  // closes the connections that are still open, idle ones included. When it returns, no call exists
  // any more.
  void Shutdown(MonotonicTime deadline);

 private:
  GrpcServer();

  std::unique_ptr<FirstRequests> first_requests_;  // used by server_ and gate_
  std::unique_ptr<ServiceImpl> service_;
  std::unique_ptr<RequestMemory> standard_memory_;  // used by health_ and reflection_
  std::unique_ptr<HealthService> health_;
  std::unique_ptr<ReflectionService> reflection_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Http2Gate> gate_;
  int port_ = 0;

  // The table of aliases has changed.
  void SetAliases(const std::vector<AliasConfig>& aliases) ABSL_LOCKS_EXCLUDED(mutex_);
  void TellServing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellAlias(const AliasConfig& alias) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<void(bool serving)> on_serving_;
  AliasTable* aliases_ = nullptr;  // tells this object its changes; nullptr: not yet
  absl::Mutex mutex_;
  std::set<std::string> serving_ ABSL_GUARDED_BY(mutex_);  // names of models
  // Models of the start that have not been ready yet, and were not unloaded.
  std::set<std::string> awaited_ ABSL_GUARDED_BY(mutex_);
  std::vector<AliasConfig> told_aliases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_GRPC_SERVER_H_
