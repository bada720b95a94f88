// Listens for the cluster.
#include "service/server/cluster/cluster_server.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/connections/http2_gate.h"
#include "service/connections/listening_sockets.h"

namespace longstream {
namespace {

// One host cannot take all connections, nor more than half of the streams of a service
// (LoadStreamLimits), so that others still reach the port, the kubelet too.
constexpr size_t kMaxClusterConnections = 128;
constexpr size_t kMaxPerAddress = 16;
constexpr int kMaxClusterStreams = 8;  // of one connection
constexpr absl::Duration kClusterHandshakeTimeout = absl::Seconds(10);

// gRPC counts these times in milliseconds. A client that has vanished is noticed after the sum of
// the first two.
constexpr int kClusterPingEvery = 30'000;
constexpr int kClusterPingTimeout = 20'000;
constexpr int kClusterLeastPingInterval = 5'000;
constexpr int kIdleTimeout = 120'000;  // of a connection without calls

// Requests have a few names and numbers.
constexpr int kMaxClusterMessageBytes = 64 << 10;
constexpr uint64_t kMaxClusterTransitBytes = 8 << 20;

void SetLimits(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kClusterPingEvery);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kClusterPingTimeout);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kClusterLeastPingInterval);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleTimeout);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxClusterStreams);
  LimitMessages("cluster", kMaxClusterTransitBytes, kMaxClusterMessageBytes, builder);
}

static_assert(kMaxPerAddress * kMaxClusterStreams <= LoadStreamLimits{}.max_streams / 2);

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterServer>> ClusterServer::Start(const Options& options,
                                                                    LoadMeter* meter) {
  absl::StatusOr<ListeningSockets> listening = Listen(options.listen, absl::ZeroDuration());
  if (!listening.ok()) {
    return absl::UnavailableError(absl::StrCat("cluster.listen: ", listening.status().message()));
  }
  std::unique_ptr<ClusterServer> server(new ClusterServer());
  server->port_ = listening->port;
  server->memory_ = std::make_unique<RequestMemory>(kMaxClusterTransitBytes);
  RequestMemory* const memory = server->memory_.get();
  server->health_ = std::make_unique<HealthService>(memory);
  for (const char* const name : {"", "live"}) server->health_->SetServing(name, true);
  server->SetReady(false);
  server->orca_ = std::make_unique<OrcaService>(meter, memory, options.streams);
  server->scaler_ = std::make_unique<ScalerService>(meter, memory, options.streams);
  grpc::ServerBuilder builder;
  SetLimits(&builder);
  builder.RegisterService(server->health_.get());
  builder.RegisterService(server->orca_.get());
  builder.RegisterService(server->scaler_.get());
  Http2Gate::Options limits;
  limits.max_connections = kMaxClusterConnections;
  limits.max_per_address = kMaxPerAddress;
  limits.preface_timeout = kClusterHandshakeTimeout;
  limits.metrics = options.connection_metrics;
  absl::StatusOr<GatedServer> served =
      ServeOn(*std::move(listening), limits, grpc::InsecureServerCredentials(), options.on_call_end,
              &builder);
  if (!served.ok()) return served.status();
  server->served_ = *std::move(served);
  return server;
}

ClusterServer::~ClusterServer() { Shutdown(); }

std::vector<std::string> ClusterServer::methods() const {
  return MethodsOf({health_.get(), orca_.get(), scaler_.get()});
}

void ClusterServer::SetReady(bool ready) {
  for (const char* const name : {"ready", v1::Longstream::service_full_name()}) {
    health_->SetServing(name, ready);
  }
}

void ClusterServer::Shutdown() { served_.Shutdown(); }

}  // namespace longstream
