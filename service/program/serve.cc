// Makes the parts of the server and connects them: thread pool, plugins, models with their engines,
// gRPC and metrics.
#include "service/program/serve.h"

#include <prometheus/registry.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/thread_pool.h"
#include "service/clock/monotonic_time.h"
#include "service/config/server_config.h"
#include "service/connections/descriptor_shares.h"
#include "service/connections/unix_socket.h"
#include "service/engine/live_work.h"
#include "service/metrics/build_info.h"
#include "service/metrics/connection_metrics.h"
#include "service/metrics/json_log.h"
#include "service/metrics/session_metrics.h"
#include "service/models/host.h"
#include "service/models/memory_plan.h"
#include "service/models/plugin.h"
#include "service/program/call_reports.h"
#include "service/program/http/server_http.h"
#include "service/program/model_sources.h"
#include "service/program/process_limits.h"
#include "service/program/server_admin.h"
#include "service/program/server_aliases.h"
#include "service/program/server_cluster.h"
#include "service/program/server_fleet.h"
#include "service/program/server_security.h"
#include "service/program/server_shadows.h"
#include "service/program/server_store.h"
#include "service/scrapes/metrics_server.h"
#include "service/server/grpc_server.h"
#include "service/server/transport/library_logs.h"
#include "service/server/turn_input.h"
#include "service/serving/model_registry.h"
#include "service/serving/reads/stored_count.h"
#include "service/serving/routing/arm_book.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

// After every turn has ended, calls have this much time to deliver their last messages.
constexpr absl::Duration kLastMessages = absl::Seconds(2);

// Then clients have about this much time to close their connections (GrpcServer::Shutdown).
constexpr absl::Duration kGoodbye = absl::Seconds(1);

// After every call has ended, the store has this much time for its last writes.
constexpr absl::Duration kLastWrites = absl::Seconds(5);

GrpcServer::Options ServerOptions(const ServerConfig& config, const ServerSecurity& security,
                                  prometheus::Registry* registry, SessionMetrics* metrics,
                                  const JsonLog& log) {
  GrpcServer::Options options;
  options.listen = config.listen;
  options.max_message_bytes = static_cast<int>(config.max_message_bytes);
  options.max_transit_bytes = config.max_transit_bytes;
  // The connections of HTTP take their part.
  options.max_connections = MaxConnections(config.max_connections, DescriptorLimit()) -
                            ServerHttp::MostConnections(config.http);
  options.max_connections_per_address = config.max_connections_per_address;
  options.handshake_timeout = config.handshake_timeout;
  options.first_request_timeout = config.first_request_timeout;
  options.idle_timeout = config.connection_idle_timeout;
  options.channelz = config.channelz;
  options.guard = security.guard();
  options.certificates = security.certificates();
  options.client_certificates = ClientCertificatesOf(config.tls);
  options.on_call_end = ReportCalls(log, registry, metrics);
  return options;
}

// Tells the log what was measured.
std::shared_ptr<ArmBook> MakeArmBook(const ThreadPool& pool, const JsonLog& log) {
  ArmBook::Options options;
  options.threads = pool.num_threads();
  options.log = [&log](const std::string& sentence) {
    log.Write(LogLevel::kInfo, "costs", {{"text", sentence}});
  };
  return std::make_shared<ArmBook>(std::move(options));
}

// The options of the registry that the configuration gives.
ModelRegistry::Options RegistryOptions(const ServerConfig& config, const Host& host,
                                       prometheus::Registry* registry, const JsonLog& log,
                                       const std::shared_ptr<ArmBook>& book) {
  ModelRegistry::Options options;
  options.host = &host;
  options.metrics = registry;
  options.load_at_once = false;
  options.prepare = [book](const std::shared_ptr<Engine>& engine) { book->MeasureAndWait(engine); };
  options.session_host_bytes = config.session_host_bytes;
  options.conversation_bytes = config.conversation_bytes;
  options.tenants = config.tenants;
  options.engine.max_open_turns = config.max_open_turns;
  options.engine.max_waiting_turns = config.max_waiting_turns;
  options.engine.stream_buffer_bytes = config.stream_buffer_bytes;
  options.engine.client_timeout = config.client_timeout;
  options.engine.time_slice = config.time_slice;
  options.engine.rollback_bytes = config.rollback_bytes;
  options.engine.live_work = std::make_shared<LiveWork>();
  options.engine.max_decode_stretch = config.max_decode_stretch;
  options.engine.on_failure = [&log](std::string_view model, std::string_view request_id,
                                     const absl::Status& status) {
    log.Write(LogLevel::kError, "turn_failed",
              {{"model", std::string(model)},
               {"request_id", std::string(request_id)},
               {"error", absl::StrCat(status.message())}});
  };
  return options;
}

// Logs the limit of connections. Warns if the process may not open as many descriptors as the
// configuration asks for.
void LogConnectionLimit(const ServerConfig& config, const JsonLog& log) {
  const uint64_t limit = DescriptorLimit();
  const std::string most = std::to_string(MaxConnections(config.max_connections, limit));
  log.Write(LogLevel::kInfo, "connections", {{"max", most}});
  if (config.max_connections > ShareDescriptors(limit).calls) {
    log.Write(LogLevel::kWarning, "connections",
              {{"error", absl::StrCat("connections.max: ", config.max_connections,
                                      " is more than the limit of open files, ", limit,
                                      ", allows; the limit is ", most)}});
  }
}

// Reports the state of each model to the log, the health service, the metrics of shadows and the
// book of costs. Models may still be loading when the server shuts down.
class ModelAnnouncer {
 public:
  ModelAnnouncer(const JsonLog* log, ServerShadows* shadows, std::shared_ptr<ArmBook> book)
      : log_(log), shadows_(shadows), book_(std::move(book)) {}

  void SetServer(GrpcServer* server) {
    absl::MutexLock lock(&mutex_);
    server_ = server;
  }
  // The server is shutting down. From now on, states go to the log only, and no model is measured.
  void ForgetServer() {
    SetServer(nullptr);
    book_->Stop();
  }

  void Announce(const ModelStatus& status) {
    // The model can compute nothing any more, or another one may get its name.
    if (status.engine == nullptr) book_->Forget(status.name);
    if (status.state == ModelState::kDraining || status.state == ModelState::kGone) {
      log_->Write(LogLevel::kInfo,
                  status.state == ModelState::kGone ? "model_gone" : "model_draining",
                  {{"model", status.name}, {"version", status.version}});
      if (status.state == ModelState::kGone) shadows_->Forget(status.name);
    } else if (status.state == ModelState::kReady) {
      shadows_->Return(status.name);
      const BackendModel& backend = status.engine->model().backend();
      log_->Write(LogLevel::kInfo, "model_ready",
                  {{"model", status.name},
                   {"version", status.version},
                   {"backend", backend.plugin().name()},
                   {"architecture", backend.info().architecture},
                   {"kernels", backend.info().kernels},
                   {"parameters", std::to_string(backend.info().num_parameters)}});
    } else {
      log_->Write(LogLevel::kError, "model_failed",
                  {{"model", status.name}, {"error", absl::StrCat(status.error.message())}});
    }
    absl::MutexLock lock(&mutex_);
    if (server_ == nullptr) return;
    if (status.state == ModelState::kGone) {
      server_->ForgetModel(status.name);
    } else {
      server_->SetModelServing(status.name, status.state == ModelState::kReady);
    }
  }

 private:
  const JsonLog* const log_;
  ServerShadows* const shadows_;
  const std::shared_ptr<ArmBook> book_;
  absl::Mutex mutex_;
  GrpcServer* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Returns null if the configuration wants no metrics port.
absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetrics(
    const ServerConfig& config, const ServerSecurity& security,
    const std::shared_ptr<prometheus::Registry>& registry) {
  if (config.metrics_listen.empty()) return nullptr;
  constexpr absl::Duration kTimeout = absl::Seconds(5);
  return MetricsServer::Start(
      config.metrics_listen, registry, kTimeout,
      {.certificates = security.metrics_certificates(),
       .clients = ClientCertificatesOf(config.metrics_tls),
       .guard = config.security.metrics_credentials ? security.guard() : nullptr});
}

// Returns null if the configuration wants no HTTP port.
absl::StatusOr<std::unique_ptr<ServerHttp>> StartHttp(const ServerConfig& config,
                                                      const ServerSecurity& security,
                                                      prometheus::Registry* registry,
                                                      GrpcServer* server) {
  return ServerHttp::Start(config.http, security.http_certificates(),
                           ClientCertificatesOf(config.http.tls), registry, server);
}

// Returns null if the configuration wants no store.
absl::StatusOr<std::unique_ptr<ServerStore>> OpenStore(const ServerConfig& config,
                                                       const JsonLog& log,
                                                       prometheus::Registry* registry) {
  if (config.store_url.empty()) return nullptr;
  return ServerStore::Open(config, &log, registry);
}

// `store`: nullptr if the configuration wants none, here and below.
absl::Status CountStored(ServerStore* store, const ModelRegistry& models) {
  if (store == nullptr) return absl::OkStatus();
  return CountStoredSessions(*store->store(), models.tenants());
}

absl::StatusOr<SessionManager::Options> SessionOptions(const ServerConfig& config,
                                                       SessionMetrics* metrics, ServerStore* store,
                                                       prometheus::Registry* registry,
                                                       const ServerShadows& shadows,
                                                       const JsonLog& log,
                                                       std::shared_ptr<ArmBook> book) {
  SessionManager::Options options;
  shadows.AddTo(&options);
  options.max_sessions = config.max_sessions;
  options.default_idle_timeout = config.idle_timeout;
  options.max_idle_timeout = config.max_idle_timeout;
  options.resume_window = config.resume_window;
  options.max_transfers = config.max_transfers;
  options.client_timeout = config.client_timeout;
  options.metrics = metrics;
  if (store != nullptr) {
    options.store = store->store();
    options.commits = store->commits();
    options.files = {.sealing = store->sealing(), .only_sealed = config.imports == "sealed"};
    options.ttl = config.ttl;
    options.max_ttl = config.max_ttl;
    options.commit_timeout = config.store_commit_timeout;
    options.render_messages = RenderLoggedMessages;
    options.on_model_change =
        config.on_model_change == "recompute" ? OnModelChange::kRecompute : OnModelChange::kRefuse;
  }
  absl::StatusOr<std::shared_ptr<AliasTable>> aliases =
      OpenAliases(config, options.store, registry, log, std::move(book));
  if (!aliases.ok()) return aliases.status();
  options.aliases = *std::move(aliases);
  return options;
}

int Fail(const JsonLog& log, const absl::Status& status) {
  return FailToStart(log, std::string_view(status.message().data(), status.message().size()));
}

// Shuts the server down. Ends the process if the disk of the store hangs, because calls that read
// the store, and destructors, would wait for it. `store`, `http`: nullptr if there is none.
// `last_messages`: until then calls may deliver their last messages.
void ShutDown(GrpcServer& server, ServerStore* store, ServerHttp* http, SessionManager& sessions,
              MonotonicTime last_messages, const JsonLog& log) {
  const auto end_calls = [&server, http, last_messages] {
    if (http != nullptr) http->Shutdown(last_messages - MonotonicTime::Now());
    server.Shutdown(last_messages);
  };
  if (store == nullptr) return end_calls();
  const auto stop = [&end_calls, &sessions] {
    end_calls();
    sessions.StopSaving();
  };
  if (store->Settle(stop, last_messages + kGoodbye + kLastWrites)) return;
  log.Write(LogLevel::kError, "stopped",
            {{"error",
              "store: the disk does not end its last writes; changes that were not acknowledged may"
              " be lost"}});
  std::_Exit(kStoreHangs);
}

// `metrics`, `admin`, `http`: nullptr if the configuration wants none.
void LogListening(const JsonLog& log, const ServerConfig& config, const GrpcServer& server,
                  const MetricsServer* metrics, const ServerAdmin* admin,
                  const ServerCluster& cluster, const ServerHttp* http) {
  // A Unix socket has no port.
  const bool is_socket = UnixSocketPath(config.admin_listen).has_value();
  const std::string port = std::to_string(admin == nullptr ? 0 : admin->port());
  log.Write(LogLevel::kInfo, "listening",
            {{"port", std::to_string(server.port())},
             {"metrics_port", std::to_string(metrics == nullptr ? 0 : metrics->port())},
             {"cluster_port", std::to_string(cluster.port())},
             {"http_port", std::to_string(http == nullptr ? 0 : http->port())},
             {is_socket ? "admin" : "admin_port", is_socket ? config.admin_listen : port}});
  LogConnectionLimit(config, log);
  for (const std::string& listen : OpenToNetwork(config)) {
    log.Write(LogLevel::kWarning, "open_to_network",
              {{"listen", listen},
               {"text",
                "anybody who reaches the port may use the models and read all sessions; name "
                "security.credentials, or listen on 127.0.0.1"}});
  }
}

// `admin`: as above.
void EndOperations(ModelRegistry& models, ServerAdmin* admin, ShadowRunner& shadows) {
  models.CancelOperations();  // also the loading of models that wait since the start
  if (admin != nullptr) admin->Shutdown();
  shadows.Stop();
}

// `fleet`: nullptr if there is none, here and below.
void DriveFleet(ServerFleet* fleet, SessionManager* sessions) {
  if (fleet != nullptr) fleet->Drive(sessions);
}

absl::Status StartFleet(ServerFleet* fleet, const GrpcServer& server,
                        const GrpcServer::Options& options) {
  return fleet == nullptr ? absl::OkStatus() : fleet->Start(server, options);
}

void StopFleet(ServerFleet* fleet) {
  if (fleet != nullptr) fleet->Stop();
}

// `http`: nullptr if there is none, here and below. Waits for the signal that ends the server. Then
// clients are told to go elsewhere, and the time for the end runs.
void AwaitSignal(const sigset_t& signals, const JsonLog& log, GrpcServer& server,
                 ServerFleet* fleet, ServerHttp* http) {
  int signal = 0;
  sigwait(&signals, &signal);
  if (fleet != nullptr) fleet->LimitEnd();
  log.Write(LogLevel::kInfo, "draining", {{"signal", std::to_string(signal)}});
  server.SetNotServing();
  server.StopAccepting();
  if (http != nullptr) http->StopAccepting();
}

// Running turns end, then idle sessions go to other replicas, then the server ends. Returns the
// exit code. `store`: nullptr if there is none.
int EndServing(const ServerConfig& config, GrpcServer& server, SessionManager& sessions,
               ServerFleet* fleet, ServerStore* store, ServerHttp* http, const JsonLog& log) {
  MonotonicTime end = MonotonicTime::InfiniteFuture();
  if (fleet == nullptr) {
    sessions.Drain(config.grace);
  } else {
    end = fleet->Drain(sessions, kGoodbye);
  }
  const MonotonicTime last_messages = std::min(MonotonicTime::Now() + kLastMessages, end);
  ShutDown(server, store, http, sessions, last_messages, log);
  log.Write(LogLevel::kInfo, "stopped");
  return fleet != nullptr && fleet->replaced() ? 1 : 0;
}

// gRPC and other libraries log to a copy of the log, because their threads may outlive
// Serve.
void LogLibraries(JsonLog log) {
  RedirectLibraryLogs([log](std::string_view library, std::string_view text) {
    log.Write(LogLevel::kWarning, "library", {{"library", library}, {"text", text}});
  });
}

using LoadedPlugins = std::vector<std::shared_ptr<const Plugin>>;

// Errors are also those of CheckCacheBytes.
absl::StatusOr<LoadedPlugins> LoadPlugins(const ServerConfig& config,
                                          const std::vector<ModelSource>& sources,
                                          uint64_t memory_bytes, const JsonLog& log) {
  const std::string directory = PluginDirectoryOf(config);
  absl::StatusOr<PluginDirectory> found = LoadPluginDirectory(directory);
  if (!found.ok()) return found.status();
  for (const absl::Status& refused : found->refused) {
    log.Write(LogLevel::kWarning, "plugin_refused", {{"error", absl::StrCat(refused.message())}});
  }
  if (found->plugins.empty()) {
    return absl::NotFoundError(
        absl::StrCat("plugin directory ", directory, ": found no plugin that can be used"));
  }
  absl::Status fits =
      CheckCacheBytes(memory_bytes, sources, found->plugins, config.session_host_bytes);
  if (!fits.ok()) return fits;
  return std::move(found->plugins);
}

}  // namespace

int FailToStart(const JsonLog& log, std::string_view why) {
  log.Write(LogLevel::kError, "start_failed", {{"error", std::string(why)}});
  return 1;
}

int Serve(const ServerConfig& config, const JsonLog& log, const sigset_t& signals) {
  LogLibraries(log);
  const std::vector<ModelSource> sources = ModelSourcesOf(config);
  const uint64_t memory_bytes = MemoryBytesOf(config);
  const absl::StatusOr<LoadedPlugins> plugins = LoadPlugins(config, sources, memory_bytes, log);
  if (!plugins.ok()) return Fail(log, plugins.status());
  ThreadPool pool(config.threads);
  TryThreads(NeededThreads(config));
  const Host host(pool.AsExecutor(), [&log](LogSeverity severity, std::string_view text) {
    log.Write(static_cast<LogLevel>(severity), "backend", {{"text", text}});
  });
  auto registry = std::make_shared<prometheus::Registry>();
  AddBuildInfo(registry.get(), LONGSTREAM_VERSION);
  const absl::StatusOr<std::unique_ptr<ServerSecurity>> security =
      ServerSecurity::Open(config, &log, registry.get());
  if (!security.ok()) return Fail(log, security.status());
  const absl::StatusOr<std::unique_ptr<ServerStore>> store = OpenStore(config, log, registry.get());
  if (!store.ok()) return Fail(log, store.status());
  const absl::StatusOr<std::unique_ptr<ServerFleet>> fleet =
      ServerFleet::Join(config, **security, store->get(), &log, registry.get());
  if (!fleet.ok()) return Fail(log, fleet.status());
  ServerShadows shadows(registry.get());
  const std::shared_ptr<ArmBook> book = MakeArmBook(pool, log);
  ModelAnnouncer announcer(&log, &shadows, book);
  ModelRegistry::Options options = RegistryOptions(config, host, registry.get(), log, book);
  options.plugins = *plugins;
  options.memory_bytes = memory_bytes;
  options.engine.executor = pool.AsExecutor();
  ModelRegistry models(options, sources,
                       [&announcer](const ModelStatus& status) { announcer.Announce(status); });
  if (absl::Status s = CountStored(store->get(), models); !s.ok()) return Fail(log, s);
  SessionMetrics session_metrics(registry.get(), models.host_memory()->limit());
  auto session_options =
      SessionOptions(config, &session_metrics, store->get(), registry.get(), shadows, log, book);
  if (!session_options.ok()) return Fail(log, session_options.status());
  if (*fleet != nullptr) (*fleet)->AddTo(&*session_options);
  SessionManager sessions(&models, *session_options);
  const absl::Cleanup stop_fleet = [&fleet] { StopFleet(fleet->get()); };
  DriveFleet(fleet->get(), &sessions);
  const auto shadow_runner = shadows.Run(&models, options.engine.live_work);
  GrpcServer::Options server_options =
      ServerOptions(config, **security, registry.get(), &session_metrics, log);
  const auto cluster = ServerCluster::Start(config, registry, memory_bytes, &server_options);
  if (!cluster.ok()) return Fail(log, cluster.status());
  ConnectionMetrics connection_metrics(registry.get(), "grpc");
  std::unique_ptr<GrpcServer> server;
  // A model may become ready while the server is being destroyed.
  absl::Cleanup forget_server = [&announcer, &store] {
    announcer.ForgetServer();
    if (*store != nullptr) (*store)->SetListener(nullptr);
  };
  server_options.connection_metrics = &connection_metrics;
  if (*fleet != nullptr) server_options.relays = (*fleet)->relays();
  absl::StatusOr<std::unique_ptr<GrpcServer>> listening =
      GrpcServer::Start(server_options, &models, &sessions);
  if (!listening.ok()) return Fail(log, listening.status());
  server = *std::move(listening);
  announcer.SetServer(server.get());
  if (*store != nullptr) {
    (*store)->SetListener([&server](bool serving) { server->SetStoreServing(serving); });
  }
  const auto metrics_server = StartMetrics(config, **security, registry);
  if (!metrics_server.ok()) return Fail(log, metrics_server.status());
  const auto admin =
      ServerAdmin::Start(config, {security->get(), registry.get(), &log, &models, &sessions,
                                  store->get(), server_options.on_call_end});
  if (!admin.ok()) return Fail(log, admin.status());
  const auto http = StartHttp(config, **security, registry.get(), server.get());
  if (!http.ok()) return Fail(log, http.status());
  absl::Status joined = StartFleet(fleet->get(), *server, server_options);
  if (!joined.ok()) return Fail(log, joined);
  LogListening(log, config, *server, metrics_server->get(), admin->get(), **cluster, http->get());
  // Not earlier, because the caches may take address space that the threads above need.
  models.BeginToLoad();
  AwaitSignal(signals, log, *server, fleet->get(), http->get());
  std::move(forget_server).Invoke();
  EndOperations(models, admin->get(), *shadow_runner);
  return EndServing(config, *server, sessions, fleet->get(), store->get(), http->get(), log);
}

}  // namespace longstream
