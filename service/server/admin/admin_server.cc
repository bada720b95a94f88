// Listens for operators.
#include "service/server/admin/admin_server.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/connections/http2_gate.h"
#include "service/interceptors/request_id.h"
#include "service/security/access_table.h"
#include "service/server/transport/authorize.h"
#include "service/server/transport/tls_credentials.h"
#include "service/wire/request_memory.h"

namespace longstream {
namespace {

constexpr int kMaxAdminMessageBytes = 1 << 20;
constexpr size_t kMaxAdminConnections = 64;
constexpr uint64_t kMaxAdminTransitBytes = 16 << 20;
constexpr absl::Duration kAdminHandshakeTimeout = absl::Seconds(10);

// The file's mode says who may use the socket.
Authorize AuthorizeOperator(decltype(AdminServer::Options::on_operator_call) on_call) {
  return [on_call = std::move(on_call)](const grpc::CallbackServerContext& context,
                                        std::string_view method) -> absl::StatusOr<Caller> {
    Caller caller;
    caller.role = Role::kOperator;
    caller.name = "unix-socket";
    if (on_call) on_call(caller, method, RequestIdOf(context), absl::OkStatus());
    return caller;
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const Options& options,
                                                                ModelAdmin* admin) {
  const std::optional<std::string> path = UnixSocketPath(options.listen);
  if (!path.has_value() && options.guard == nullptr) {
    return absl::InvalidArgumentError(
        "admin.listen: an address that is no Unix socket needs security.credentials");
  }
  std::unique_ptr<AdminServer> server(new AdminServer());
  absl::StatusOr<ListeningSockets> listening = server->Bind(options.listen);
  if (!listening.ok()) {
    return absl::UnavailableError(absl::StrCat("admin.listen: ", listening.status().message()));
  }
  server->port_ = listening->port;
  server->memory_ = std::make_unique<RequestMemory>(kMaxAdminTransitBytes);
  server->service_ =
      std::make_unique<AdminService>(admin, server->memory_.get(),
                                     path.has_value() ? AuthorizeOperator(options.on_operator_call)
                                                      : AuthorizeWith(options.guard));
  if (absl::Status status = AccessTable(/*open_health=*/false).CheckHasRows(server->methods());
      !status.ok()) {
    return status;
  }
  grpc::ServerBuilder builder;
  LimitMessages("admin", kMaxAdminTransitBytes, kMaxAdminMessageBytes, &builder);
  builder.RegisterService(server->service_.get());
  Http2Gate::Options limits;
  limits.max_connections = kMaxAdminConnections;
  limits.preface_timeout = kAdminHandshakeTimeout;
  limits.metrics = options.connection_metrics;
  limits.tls = options.certificates != nullptr && !path.has_value();
  absl::StatusOr<GatedServer> served = ServeOn(
      *std::move(listening), limits,
      CredentialsWith(limits.tls ? options.certificates : nullptr, options.client_certificates),
      options.on_call_end, &builder);
  if (!served.ok()) return served.status();
  server->served_ = *std::move(served);
  return server;
}

absl::StatusOr<ListeningSockets> AdminServer::Bind(const std::string& address) {
  const std::optional<std::string> path = UnixSocketPath(address);
  if (!path.has_value()) return Listen(address, absl::ZeroDuration());
  ListeningSockets listening;
  absl::StatusOr<UnixSocketFile> file = ListenOnUnixSocket(*path, &listening);
  if (!file.ok()) return file.status();
  socket_file_ = *std::move(file);
  return listening;
}

AdminServer::~AdminServer() { Shutdown(); }

void AdminServer::Shutdown() {
  // The file goes before the socket: as long as this socket listens, no other server takes the
  // name, so this removes no file of another server.
  if (socket_file_.has_value()) RemoveSocketFile(*std::exchange(socket_file_, std::nullopt));
  served_.Shutdown();
}

}  // namespace longstream
