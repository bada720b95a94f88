// The listener of operators: a gRPC server of its own.
#ifndef LONGSTREAM_SERVICE_SERVER_ADMIN_ADMIN_SERVER_H_
#define LONGSTREAM_SERVICE_SERVER_ADMIN_ADMIN_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/connections/listening_sockets.h"
#include "service/connections/unix_socket.h"
#include "service/security/certificates.h"
#include "service/security/guard.h"
#include "service/server/admin/admin_service.h"
#include "service/server/transport/listener.h"
#include "service/serving/models/model_admin.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace longstream {

class ConnectionMetrics;

// Thread-safe.
class AdminServer {
 public:
  struct Options {
    // "unix:PATH", a socket with the mode 0600, whose every client counts as an operator; or
    // host:port.
    std::string listen;
    // For host:port. Decides who may call; outlives the server.
    const Guard* guard = nullptr;
    // For TLS on host:port. Null: plain text.
    std::shared_ptr<const CurrentCertificates> certificates = nullptr;
    ClientCertificates client_certificates = ClientCertificates::kNone;
    // Told of each call on a Unix socket, as Guard::Listeners::on_operator_call is.
    std::function<void(const Caller& caller, std::string_view method, std::string_view request_id,
                       const absl::Status& status)>
        on_operator_call = nullptr;
    // Called when a call ends (service/interceptors/request_id.h).
    std::function<void(std::string_view request_id, std::string_view method,
                       const absl::Status& status)>
        on_call_end = nullptr;
    ConnectionMetrics* connection_metrics = nullptr;  // outlives the server; null: no metrics
  };

  // `admin` outlives the server. UNAVAILABLE: the address cannot be bound. INVALID_ARGUMENT: an
  // address that is no Unix socket needs a guard. FAILED_PRECONDITION: a method has no row in the
  // AccessTable.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(const Options& options,
                                                            ModelAdmin* admin);
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  int port() const { return port_; }  // 0: a Unix socket
  std::vector<std::string> methods() const { return service_->methods(); }

  // Cancels the calls, closes the port and removes the socket's file. Operations go on.
  void Shutdown();

 private:
  AdminServer() = default;
  absl::StatusOr<ListeningSockets> Bind(const std::string& address);

  std::unique_ptr<RequestMemory> memory_;  // used by service_
  std::unique_ptr<AdminService> service_;
  GatedServer served_;
  std::optional<UnixSocketFile> socket_file_;
  int port_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_ADMIN_ADMIN_SERVER_H_
