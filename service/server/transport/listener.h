// Parts of a gRPC server that all listeners share.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_LISTENER_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_LISTENER_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "service/connections/http2_gate.h"
#include "service/connections/listening_sockets.h"
#include "service/interceptors/request_id.h"

namespace longstream {

// Limits the bytes of all messages in transit and of one message, and refuses compressed requests.
// `quota_name`: of gRPC's resource quota.
void LimitMessages(const char* quota_name, size_t max_transit_bytes, int max_message_bytes,
                   grpc::ServerBuilder* builder);

// Returns a function that gives connections to gRPC. It shares the acceptor with its copies.
Http2Gate::HandOver GiveTo(
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);

// A server, and the gate that gives it its connections.
struct GatedServer {
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Http2Gate> gate;

  // Closes the port, cancels the calls and waits for their ends. May be called before the server
  // has started, and again.
  void Shutdown() const;
};

// Starts a server on sockets that listen. `builder` has its services and the limits of messages.
// INTERNAL: gRPC does not start. Also returns the errors of Http2Gate::Start.
absl::StatusOr<GatedServer> ServeOn(ListeningSockets listening, const Http2Gate::Options& limits,
                                    const std::shared_ptr<grpc::ServerCredentials>& credentials,
                                    CallEndListener on_call_end, grpc::ServerBuilder* builder);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_LISTENER_H_
