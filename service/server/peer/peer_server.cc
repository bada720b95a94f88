// Listens for peers.
#include "service/server/peer/peer_server.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/connections/http2_gate.h"
#include "service/connections/listening_sockets.h"
#include "service/security/access_table.h"
#include "service/security/loopback.h"
#include "service/server/peer/peer_limits.h"
#include "service/server/transport/authorize.h"
#include "service/server/transport/tls_credentials.h"
#include "service/wire/request_memory.h"

namespace longstream {
namespace {

constexpr size_t kMaxPeerConnections = 256;
constexpr absl::Duration kPeerHandshakeTimeout = absl::Seconds(10);
// The bytes of an AttachRequest besides the client's request.
constexpr int kMoreBytes = 64 << 10;
constexpr int kPeerLeastPingInterval = 5'000;  // milliseconds
constexpr int kMaxPeerStreams = 2048;          // of one connection; most of them relays

void SetLimits(const PeerServer::Options& options, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPeerPingEvery);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPeerPingTimeout);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kPeerLeastPingInterval);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxPeerStreams);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kPeerAheadBytes);
  LimitMessages("peers", options.max_transit_bytes, options.max_message_bytes + kMoreBytes,
                builder);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerServer>> PeerServer::Start(const Options& options,
                                                              PeerClient* client) {
  if (options.guard == nullptr && !IsLoopback(options.listen)) {
    return absl::InvalidArgumentError(
        "fleet.peer_listen: an address that other hosts reach needs security.credentials");
  }
  absl::StatusOr<ListeningSockets> listening = Listen(options.listen, absl::ZeroDuration());
  if (!listening.ok()) {
    return absl::UnavailableError(
        absl::StrCat("fleet.peer_listen: ", listening.status().message()));
  }
  std::unique_ptr<PeerServer> server(new PeerServer());
  server->port_ = listening->port;
  server->memory_ = std::make_unique<RequestMemory>(options.max_transit_bytes);
  server->service_ = std::make_unique<PeerService>(
      client->core(), options.attach, options.cancel, server->memory_.get(),
      options.guard == nullptr ? Authorize(AuthorizeEverybody) : AuthorizeWith(options.guard));
  if (absl::Status status = AccessTable(/*open_health=*/false).CheckHasRows(server->methods());
      !status.ok()) {
    return status;
  }
  grpc::ServerBuilder builder;
  SetLimits(options, &builder);
  builder.RegisterService(server->service_.get());
  Http2Gate::Options limits;
  limits.max_connections = kMaxPeerConnections;
  limits.preface_timeout = kPeerHandshakeTimeout;
  limits.metrics = options.connection_metrics;
  limits.tls = options.certificates != nullptr;
  absl::StatusOr<GatedServer> served =
      ServeOn(*std::move(listening), limits,
              CredentialsWith(options.certificates, options.client_certificates),
              options.on_call_end, &builder);
  if (!served.ok()) return served.status();
  server->served_ = *std::move(served);
  return server;
}

PeerServer::~PeerServer() { Shutdown(); }

void PeerServer::Shutdown() { served_.Shutdown(); }

}  // namespace longstream
