// Parts of a gRPC server that all listeners share.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_LISTENER_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_LISTENER_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>

#include "service/connections/http2_gate.h"

namespace longstream {

// Limits the bytes of all messages in transit and of one message, and refuses compressed requests.
// `quota_name`: of gRPC's resource quota.
void LimitMessages(const char* quota_name, size_t max_transit_bytes, int max_message_bytes,
                   grpc::ServerBuilder* builder);

// Returns a function that gives connections to gRPC. It shares the acceptor with its copies.
Http2Gate::HandOver GiveTo(
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_LISTENER_H_
