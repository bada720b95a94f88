// The limits of messages, and the hand-over of accepted connections.
#include "service/server/transport/listener.h"

#include <grpcpp/resource_quota.h>

#include <utility>

namespace longstream {

void LimitMessages(const char* quota_name, size_t max_transit_bytes, int max_message_bytes,
                   grpc::ServerBuilder* builder) {
  grpc::ResourceQuota quota(quota_name);
  quota.Resize(max_transit_bytes);
  builder->SetResourceQuota(quota);
  builder->SetMaxReceiveMessageSize(max_message_bytes);
  // gRPC would inflate a compressed request without any limit.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
}

Http2Gate::HandOver GiveTo(
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor) {
  return [shared = std::shared_ptr(std::move(acceptor))](int descriptor) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = descriptor;
    shared->HandleNewConnection(&connection);
  };
}

}  // namespace longstream
