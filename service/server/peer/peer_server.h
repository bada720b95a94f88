// The listener of peers: a gRPC server of its own.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_PEER_SERVER_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_PEER_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/security/certificates.h"
#include "service/security/guard.h"
#include "service/server/peer/peer_client.h"
#include "service/server/peer/peer_service.h"
#include "service/server/transport/listener.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace longstream {

class ConnectionMetrics;

// Thread-safe.
class PeerServer {
 public:
  struct Options {
    std::string listen{};  // host:port
    // Decides who may call; outlives the server. Null: every program of this machine, so `listen`
    // must be a loopback address.
    const Guard* guard = nullptr;
    // For TLS. Null: plain text.
    std::shared_ptr<const CurrentCertificates> certificates = nullptr;
    ClientCertificates client_certificates = ClientCertificates::kNone;
    // The limit of a client's request that a peer relays.
    int max_message_bytes = 64 << 20;
    // The limit of what calls have received and not taken yet.
    uint64_t max_transit_bytes = 256 << 20;
    AttachTurn attach = nullptr;
    CancelRunningTurn cancel = nullptr;
    // Called when a call ends (service/interceptors/request_id.h).
    std::function<void(std::string_view request_id, std::string_view method,
                       const absl::Status& status)>
        on_call_end = nullptr;
    ConnectionMetrics* connection_metrics = nullptr;  // outlives the server; null: no metrics
  };

  // Messages go to the events of `client`, and its answers go back; it outlives the server.
  // UNAVAILABLE: the address cannot be bound. INVALID_ARGUMENT: an address that is not on the
  // loopback needs a guard. FAILED_PRECONDITION: a method has no row in the AccessTable.
  static absl::StatusOr<std::unique_ptr<PeerServer>> Start(const Options& options,
                                                           PeerClient* client);
  ~PeerServer();
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  int port() const { return port_; }
  std::vector<std::string> methods() const { return service_->methods(); }

  // Cancels the calls and closes the port.
  void Shutdown();

 private:
  PeerServer() = default;

  std::unique_ptr<RequestMemory> memory_;  // used by service_
  std::unique_ptr<PeerService> service_;
  GatedServer served_;
  int port_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_PEER_SERVER_H_
