// Builds the gRPC server, reports its health and shuts it down.
#include "service/server/grpc_server.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "service/connections/descriptor_shares.h"
#include "service/connections/first_requests.h"
#include "service/connections/http2_gate.h"
#include "service/connections/listening_sockets.h"
#include "service/interceptors/request_id.h"
#include "service/security/access_table.h"
#include "service/security/guard.h"
#include "service/security/tenants/tenants.h"
#include "service/server/service_impl.h"
#include "service/server/standard/health_service.h"
#include "service/server/standard/reflection_service.h"
#include "service/server/transport/authorize.h"
#include "service/server/transport/listener.h"
#include "service/server/transport/tls_credentials.h"

namespace longstream {
namespace {

// Refuses clients whose tenant the configuration does not name. Without configured tenants, the
// tenants of credentials do not count. `tenants` outlives the calls.
Authorize WithTenants(Authorize authorize, const Tenants& tenants) {
  return [authorize = std::move(authorize), &tenants](
             const grpc::CallbackServerContext& context,
             std::string_view method) -> absl::StatusOr<Caller> {
    absl::StatusOr<Caller> caller = authorize(context, method);
    if (!caller.ok()) return caller;
    if (!tenants.are_configured()) caller->tenant.clear();
    if (caller->role != Role::kClient) return caller;
    const auto found = tenants.Find(caller->tenant);
    if (!found.ok()) return found.status();
    return caller;
  };
}

// The time that clients get to close their connections, after the calls of our service have ended.
constexpr absl::Duration kGoodbye = absl::Seconds(1);

// The names of the server as a whole in the health service.
constexpr const char* kServerNames[] = {"", v1::Longstream::service_full_name()};

// Adds channelz to the servers that are built from now on, in the whole process.
void EnableChannelz() {
  static std::once_flag once;
  std::call_once(once, [] { grpc::channelz::experimental::InitChannelzService(); });
}

// Removes channelz from one server.
class NoChannelz final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "channelz_service"; });
  }
};

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void SetLimits(const GrpcServer::Options& options, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              Milliseconds(options.handshake_timeout));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.idle_timeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              Milliseconds(options.keepalive_timeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              Milliseconds(options.least_ping_interval));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  if (options.client_certificates != ClientCertificates::kNone) {
    // A removed authority does not count any more when each client has connected again. gRPC lets
    // the calls of an old connection end, however long they take.
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                                Milliseconds(options.max_connection_age));
  }
  LimitMessages("requests", options.max_transit_bytes, options.max_message_bytes, builder);
}

}  // namespace

GrpcServer::GrpcServer() = default;

GrpcServer::~GrpcServer() {
  if (aliases_ != nullptr) aliases_->SetListener(nullptr);
  Shutdown(MonotonicTime::Now());
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                              const ModelRegistry* models,
                                                              SessionManager* sessions) {
  if (options.channelz && options.guard != nullptr) {
    return absl::InvalidArgumentError("connections.channelz: cannot be used with credentials");
  }
  if (options.channelz) EnableChannelz();
  absl::StatusOr<ListeningSockets> listening = Listen(options.listen, options.keepalive_timeout);
  if (!listening.ok()) {
    return absl::UnavailableError(absl::StrCat("listen: ", listening.status().message()));
  }
  std::unique_ptr<GrpcServer> server(new GrpcServer());
  server->first_requests_ = std::make_unique<FirstRequests>(
      options.first_request_timeout, options.certificates == nullptr
                                         ? FirstRequests::kBytesOfARequest
                                         : FirstRequests::kBytesOfARequestOverTls);
  const Authorize authorize =
      options.guard == nullptr ? Authorize(AuthorizeEverybody) : AuthorizeWith(options.guard);
  server->service_ = std::make_unique<ServiceImpl>(models, sessions, options.max_transit_bytes,
                                                   WithTenants(authorize, models->tenants()),
                                                   options.compare, options.relays);

  grpc::ServerBuilder builder;
  // gRPC gets connections from the gate after the preface, and waits for the SETTINGS frame.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          CredentialsWith(options.certificates, options.client_certificates));
  SetLimits(options, &builder);
  builder.RegisterService(server->service_.get());
  server->standard_memory_ = std::make_unique<RequestMemory>(options.max_transit_bytes);
  server->health_ = std::make_unique<HealthService>(server->standard_memory_.get(), authorize);
  builder.RegisterService(server->health_.get());
  server->reflection_ = std::make_unique<ReflectionService>(
      std::vector<std::string>{v1::Longstream::service_full_name(),
                               grpc::health::v1::Health::service_full_name(),
                               grpc::reflection::v1alpha::ServerReflection::service_full_name()},
      server->standard_memory_.get(), authorize);
  builder.RegisterService(server->reflection_.get());
  if (absl::Status status = AccessTable(/*open_health=*/true).CheckHasRows(server->methods());
      !status.ok()) {
    return status;
  }
  if (!options.channelz) builder.SetOption(std::make_unique<NoChannelz>());
  builder.experimental().SetInterceptorCreators(RequestIdInterceptors(
      [first_requests = server->first_requests_.get()](std::string_view peer) {
        first_requests->CallFrom(peer);
      },
      options.on_call_end));
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC did not start; see its log");
  server->on_serving_ = options.on_serving;
  for (const char* const name : kServerNames) server->health_->SetServing(name, false);
  // The health service knows every model from the beginning. A model that is loading is
  // NOT_SERVING.
  const std::vector<ModelStatus> at_start = models->List();
  {
    absl::MutexLock lock(&server->mutex_);
    for (const ModelStatus& model : at_start) server->awaited_.insert(model.name);
  }
  for (const ModelStatus& model : at_start) server->SetModelServing(model.name, false);
  server->aliases_ = &sessions->aliases();
  server->aliases_->SetListener(
      [raw = server.get()](const std::vector<AliasConfig>& aliases) { raw->SetAliases(aliases); });
  server->port_ = listening->port;
  const Http2Gate::Options limits{
      .max_connections = MaxConnections(options.max_connections, DescriptorLimit()),
      .max_per_address = options.max_connections_per_address,
      .preface_timeout = options.handshake_timeout,
      .tls = options.certificates != nullptr,
      .first_requests = server->first_requests_.get(),
      .metrics = options.connection_metrics};
  absl::StatusOr<std::unique_ptr<Http2Gate>> gate =
      Http2Gate::Start(*std::move(listening), limits, GiveTo(std::move(acceptor)));
  if (!gate.ok()) return gate.status();
  server->gate_ = *std::move(gate);
  return server;
}

std::shared_ptr<grpc::Channel> GrpcServer::NewChannel() { return server_->InProcessChannel({}); }

std::vector<std::string> GrpcServer::methods() const {
  return MethodsOf({service_.get(), health_.get(), reflection_.get()});
}

void GrpcServer::SetModelServing(const std::string& model, bool serving) {
  absl::MutexLock lock(&mutex_);
  if (serving) {
    serving_.insert(model);
    awaited_.erase(model);
  } else {
    serving_.erase(model);
  }
  health_->SetServing(model, serving);
  TellServing();
}

void GrpcServer::ForgetModel(const std::string& model) {
  absl::MutexLock lock(&mutex_);
  serving_.erase(model);
  awaited_.erase(model);
  health_->Forget(model);
  TellServing();
}

void GrpcServer::TellServing() {
  for (const char* const name : kServerNames) health_->SetServing(name, !serving_.empty());
  if (on_serving_) on_serving_(!serving_.empty() && awaited_.empty());
  for (const AliasConfig& alias : told_aliases_) TellAlias(alias);
}

void GrpcServer::TellAlias(const AliasConfig& alias) {
  bool any_ready = false;
  bool all_ready = true;
  for (const AliasArm& arm : alias.arms) {
    const bool is_ready = serving_.contains(arm.model);
    any_ready |= is_ready;
    all_ready &= is_ready || arm.weight == 0;
  }
  // A route chooses among the arms that are there. Weights give each arm its part, whether it is
  // there or not.
  health_->SetServing(alias.name, alias.route.has_value() ? any_ready : all_ready);
}

void GrpcServer::SetAliases(const std::vector<AliasConfig>& aliases) {
  absl::MutexLock lock(&mutex_);
  for (const AliasConfig& before : told_aliases_) {
    const bool stays = std::any_of(aliases.begin(), aliases.end(), [&](const AliasConfig& alias) {
      return alias.name == before.name;
    });
    if (!stays) health_->Forget(before.name);
  }
  told_aliases_ = aliases;
  for (const AliasConfig& alias : told_aliases_) TellAlias(alias);
}

void GrpcServer::SetStoreServing(bool serving) {
  absl::MutexLock lock(&mutex_);
  health_->SetServing("longstream.store", serving);
}

void GrpcServer::SetNotServing() {
  absl::MutexLock lock(&mutex_);
  serving_.clear();
  health_->SetNotServing();
  if (on_serving_) on_serving_(false);
}

void GrpcServer::StopAccepting() { gate_->StopAccepting(); }

void GrpcServer::Shutdown(MonotonicTime deadline) {
  if (server_ == nullptr) return;
  if (gate_ != nullptr) StopAccepting();
  service_->WaitForCalls(deadline);
  // gRPC first tells all connections that it goes away: GOAWAY with NO_ERROR. A connection without
  // calls is closed when its client has answered. Those left after kGoodbye are closed by force,
  // which sends GOAWAY with INTERNAL_ERROR to clients that have not answered.
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kGoodbye));
  server_->Wait();
  // gRPC is done with every call, so all turns have ended. A thread that woke a call or that
  // encodes its text may still use the call for a moment.
  service_->WaitForCalls(MonotonicTime::InfiniteFuture());
}

}  // namespace longstream
