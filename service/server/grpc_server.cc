// Builds the gRPC server, reports its health and shuts it down.
#include "service/server/grpc_server.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <chrono>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/interceptors/request_id.h"
#include "service/server/service_impl.h"

namespace longstream {
namespace {

// The time that clients get to close their connections, after the calls of our service have ended.
constexpr absl::Duration kGoodbye = absl::Seconds(1);

// gRPC's plugins are process-wide and must be chosen before the first server is built.
void EnablePlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::channelz::experimental::InitChannelzService();
  });
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

GrpcServer::GrpcServer() = default;

GrpcServer::~GrpcServer() { Shutdown(MonotonicTime::Now()); }

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                              const ModelRegistry* models,
                                                              SessionManager* sessions) {
  EnablePlugins();
  std::unique_ptr<GrpcServer> server(new GrpcServer());
  server->service_ = std::make_unique<ServiceImpl>(models, sessions, options.max_transit_bytes);

  grpc::ServerBuilder builder;
  // A second server on the same port must fail to start, and not take a share of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(options.least_ping_interval));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  grpc::ResourceQuota quota("requests");
  quota.Resize(options.max_transit_bytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  // gRPC would inflate a compressed request without any limit.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &server->port_);
  builder.RegisterService(server->service_.get());
  builder.experimental().SetInterceptorCreators(RequestIdInterceptors(options.on_call_failure));
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) {
    return absl::UnavailableError(absl::StrCat("listen: cannot bind ", options.listen));
  }
  server->server_->GetHealthCheckService()->SetServingStatus(false);
  // The health service knows every model from the beginning. A model that is loading is
  // NOT_SERVING.
  for (const ModelStatus& model : models->List()) server->SetModelServing(model.name, false);
  return server;
}

void GrpcServer::SetModelServing(const std::string& model, bool serving) {
  absl::MutexLock lock(&mutex_);
  if (serving) {
    serving_.insert(model);
  } else {
    serving_.erase(model);
  }
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus(model, serving);
  for (const char* const service : {"", v1::Longstream::service_full_name()}) {
    health->SetServingStatus(service, !serving_.empty());
  }
}

void GrpcServer::SetNotServing() {
  absl::MutexLock lock(&mutex_);
  serving_.clear();
  server_->GetHealthCheckService()->SetServingStatus(false);
}

void GrpcServer::Shutdown(MonotonicTime deadline) {
  if (server_ == nullptr) return;
  service_->WaitForCalls(deadline);
  // gRPC first tells all connections that it goes away: GOAWAY with NO_ERROR. A connection without
  // calls is closed when its client has answered. What is left after kGoodbye is closed by force,
  // which sends GOAWAY with INTERNAL_ERROR to clients that have not answered.
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kGoodbye));
  server_->Wait();
  // gRPC is done with every call, so all turns have ended. A thread that woke a call or that
  // encodes its text may still use the call for a moment.
  service_->WaitForCalls(MonotonicTime::InfiniteFuture());
}

}  // namespace longstream
