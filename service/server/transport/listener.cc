// The limits of messages, and the hand-over of accepted connections.
#include "service/server/transport/listener.h"

#include <grpcpp/resource_quota.h>

#include <chrono>
#include <utility>

#include "absl/time/time.h"

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

void GatedServer::Shutdown() const {
  if (gate != nullptr) gate->StopAccepting();
  if (server == nullptr) return;
  server->Shutdown(std::chrono::system_clock::now());
  server->Wait();
}

absl::StatusOr<GatedServer> ServeOn(ListeningSockets listening, const Http2Gate::Options& limits,
                                    const std::shared_ptr<grpc::ServerCredentials>& credentials,
                                    CallEndListener on_call_end, grpc::ServerBuilder* builder) {
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder->experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(limits.preface_timeout)));
  builder->experimental().SetInterceptorCreators(
      RequestIdInterceptors(nullptr, std::move(on_call_end)));
  GatedServer served;
  served.server = builder->BuildAndStart();
  if (served.server == nullptr) return absl::InternalError("gRPC did not start; see its log");
  absl::StatusOr<std::unique_ptr<Http2Gate>> gate =
      Http2Gate::Start(std::move(listening), limits, GiveTo(std::move(acceptor)));
  if (!gate.ok()) return gate.status();
  served.gate = *std::move(gate);
  return served;
}

}  // namespace longstream
