// longstream-server: makes the parts of the server and connects them: configuration, thread pool,
// plugins, models with their engines, gRPC and metrics. Then waits for a signal and shuts
// everything down in order.
#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/physical_memory.h"
#include "kernels/core/thread_pool.h"
#include "service/clock/monotonic_time.h"
#include "service/config/server_config.h"
#include "service/metrics/json_log.h"
#include "service/metrics/metrics_server.h"
#include "service/models/host.h"
#include "service/models/memory_plan.h"
#include "service/models/plugin.h"
#include "service/server/grpc_server.h"
#include "service/server/library_logs.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

// After every turn has ended, calls have this much time to deliver their last messages.
constexpr absl::Duration kLastMessages = absl::Seconds(2);

// Reads the configuration. Flags override the file, and the file overrides the defaults. CANCELLED:
// the program must exit with *exit_code, for example after --help.
absl::Status ReadCommandLine(int argc, char** argv, ServerConfig* config, int* exit_code) {
  CLI::App app("Longstream: session-based streaming generation over gRPC.");
  app.footer(
      "Examples:\n"
      "  longstream-server --model tiny=models/demo/hypenet\n"
      "  longstream-server --config server.yaml --listen 0.0.0.0:50051\n"
      "  longstream-server --model "
      "a=DIR,backend=hwfa2,options.window=64,options.full_layers=[2,5]");
  std::string file;
  std::vector<std::string> models;
  ServerConfig flags;
  app.add_option("--config", file, "YAML file; flags override it");
  app.add_option("--model", models, "NAME=DIR[,key=value...]; may be repeated");
  CLI::Option* listen = app.add_option("--listen", flags.listen, "host:port for gRPC");
  CLI::Option* metrics = app.add_option("--metrics-listen", flags.metrics_listen,
                                        "host:port for Prometheus; empty: no metrics port");
  CLI::Option* plugins = app.add_option("--plugins", flags.plugin_directory, "plugin directory");
  CLI::Option* threads = app.add_option("--threads", flags.threads,
                                        "compute threads; 0: one per processor that may be used");
  CLI::Option* level = app.add_option("--log-level", flags.log_level, "lowest level that is logged")
                           ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return absl::CancelledError();
  }
  if (!file.empty()) {
    if (absl::Status status = ReadConfigFile(file, config); !status.ok()) return status;
  }
  if (listen->count() > 0) config->listen = flags.listen;
  if (metrics->count() > 0) config->metrics_listen = flags.metrics_listen;
  if (plugins->count() > 0) config->plugin_directory = flags.plugin_directory;
  if (threads->count() > 0) config->threads = flags.threads;
  if (level->count() > 0) config->log_level = flags.log_level;
  for (const std::string& model : models) {
    if (absl::Status status = AddModelFlag(model, config); !status.ok()) return status;
  }
  return CheckConfig(*config);
}

// Finds the plugin directory relative to the binary: `plugins` beside `bin` in a build, or the
// directory of an installation under any prefix.
std::filesystem::path DefaultPluginDirectory() {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::filesystem::path built = here.parent_path() / "plugins";
  if (std::filesystem::is_directory(built)) return built;
  return (here / LONGSTREAM_PLUGINS_FROM_BINARY).lexically_normal();
}

std::vector<ModelSource> Sources(const ServerConfig& config) {
  std::vector<ModelSource> sources;
  for (const ModelConfig& model : config.models) {
    ModelSource source;
    source.name = model.name;
    source.directory = model.directory;
    source.backend = model.backend;
    source.device = model.device;
    source.options_json = model.options_json;
    source.version = model.version;
    source.cache_bytes_budget = model.cache_bytes;
    source.max_batch_tokens = config.max_batch_tokens;
    source.max_batch_sequences = config.max_batch_sequences;
    sources.push_back(std::move(source));
  }
  return sources;
}

GrpcServer::Options ServerOptions(const ServerConfig& config) {
  GrpcServer::Options options;
  options.listen = config.listen;
  options.max_message_bytes = static_cast<int>(config.max_message_bytes);
  options.max_transit_bytes = config.max_transit_bytes;
  return options;
}

// Reports the state of each model to the log and to the health service. Models begin to load before
// the server listens; reports from before wait until the server is known. Models may still be
// loading when the server shuts down.
class ModelAnnouncer {
 public:
  explicit ModelAnnouncer(const JsonLog* log) : log_(log) {}

  void SetServer(GrpcServer* server) {
    absl::MutexLock lock(&mutex_);
    server_ = server;
    decided_ = true;
  }
  // The server did not start or is shutting down. From now on, states go to the log only.
  void ForgetServer() { SetServer(nullptr); }

  void Announce(const ModelStatus& status) {
    if (status.state == ModelState::kReady) {
      const BackendModel& backend = status.engine->model().backend();
      log_->Write(LogLevel::kInfo, "model_ready",
                  {{"model", status.name},
                   {"backend", backend.plugin().name()},
                   {"architecture", backend.info().architecture},
                   {"kernels", backend.info().kernels},
                   {"parameters", std::to_string(backend.info().num_parameters)}});
    } else {
      log_->Write(LogLevel::kError, "model_failed",
                  {{"model", status.name}, {"error", absl::StrCat(status.error.message())}});
    }
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&decided_));
    if (server_ != nullptr) {
      server_->SetModelServing(status.name, status.state == ModelState::kReady);
    }
  }

 private:
  const JsonLog* const log_;
  absl::Mutex mutex_;
  bool decided_ ABSL_GUARDED_BY(mutex_) = false;
  GrpcServer* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

int Fail(const JsonLog& log, const absl::Status& status) {
  log.Write(LogLevel::kError, "start_failed", {{"error", absl::StrCat(status.message())}});
  return 1;
}

using Plugins = std::vector<std::shared_ptr<const Plugin>>;

absl::StatusOr<Plugins> LoadPlugins(const ServerConfig& config, const JsonLog& log) {
  const std::string directory =
      config.plugin_directory.empty() ? DefaultPluginDirectory().string() : config.plugin_directory;
  absl::StatusOr<PluginDirectory> found = LoadPluginDirectory(directory);
  if (!found.ok()) return found.status();
  for (const absl::Status& refused : found->refused) {
    log.Write(LogLevel::kWarning, "plugin_refused", {{"error", absl::StrCat(refused.message())}});
  }
  if (!found->plugins.empty()) return std::move(found->plugins);
  return absl::NotFoundError(
      absl::StrCat("plugin directory ", directory, ": found no plugin that can be used"));
}

// The memory that the process may use.
uint64_t MemoryBytes(const ServerConfig& config) {
  const uint64_t there_is = PhysicalMemory();
  return config.memory_bytes == 0 ? there_is : std::min(config.memory_bytes, there_is);
}

int Serve(const ServerConfig& config, const sigset_t& signals) {
  const JsonLog log(config.log_level);
  // Copy the log, because threads of the libraries may outlive this function.
  RedirectLibraryLogs([library_log = log](std::string_view library, std::string_view text) {
    library_log.Write(LogLevel::kWarning, "library", {{"library", library}, {"text", text}});
  });
  const absl::StatusOr<Plugins> plugins = LoadPlugins(config, log);
  if (!plugins.ok()) return Fail(log, plugins.status());
  const std::vector<ModelSource> sources = Sources(config);
  const uint64_t memory_bytes = MemoryBytes(config);
  if (absl::Status status = CheckCacheBytes(memory_bytes, sources, *plugins); !status.ok()) {
    return Fail(log, status);
  }

  ThreadPool pool(config.threads);
  const Host host(pool.AsExecutor(), [&log](LogSeverity severity, std::string_view text) {
    log.Write(static_cast<LogLevel>(severity), "backend", {{"text", text}});
  });
  auto registry = std::make_shared<prometheus::Registry>();
  AddBuildInfo(registry.get(), LONGSTREAM_VERSION);

  ModelAnnouncer announcer(&log);
  ModelRegistry::Options options;
  options.plugins = *plugins;
  options.host = &host;
  options.metrics = registry.get();
  options.memory_bytes = memory_bytes;
  options.engine.executor = pool.AsExecutor();
  options.engine.max_open_turns = config.max_open_turns;
  options.engine.max_waiting_turns = config.max_waiting_turns;
  options.engine.stream_buffer_bytes = config.stream_buffer_bytes;
  options.engine.client_timeout = config.client_timeout;
  options.engine.max_decode_stretch = config.max_decode_stretch;
  options.engine.on_failure = [&log](std::string_view model, const absl::Status& status) {
    log.Write(LogLevel::kError, "turn_failed",
              {{"model", std::string(model)}, {"error", absl::StrCat(status.message())}});
  };
  ModelRegistry models(options, sources,
                       [&announcer](const ModelStatus& status) { announcer.Announce(status); });
  SessionManager sessions(&models,
                          {config.max_sessions, config.idle_timeout, config.max_idle_timeout});

  absl::StatusOr<std::unique_ptr<GrpcServer>> server =
      GrpcServer::Start(ServerOptions(config), &models, &sessions);
  if (!server.ok()) {
    announcer.ForgetServer();
    return Fail(log, server.status());
  }
  announcer.SetServer(server->get());
  std::unique_ptr<MetricsServer> metrics_server;
  if (!config.metrics_listen.empty()) {
    absl::StatusOr<std::unique_ptr<MetricsServer>> started =
        MetricsServer::Start(config.metrics_listen, registry);
    if (!started.ok()) {
      announcer.ForgetServer();
      return Fail(log, started.status());
    }
    metrics_server = *std::move(started);
  }
  log.Write(
      LogLevel::kInfo, "listening",
      {{"port", std::to_string((*server)->port())},
       {"metrics_port", std::to_string(metrics_server == nullptr ? 0 : metrics_server->port())}});

  int signal = 0;
  sigwait(&signals, &signal);
  log.Write(LogLevel::kInfo, "draining", {{"signal", std::to_string(signal)}});
  announcer.ForgetServer();
  (*server)->SetNotServing();
  sessions.Drain(config.grace);
  (*server)->Shutdown(MonotonicTime::Now() + kLastMessages);
  log.Write(LogLevel::kInfo, "stopped");
  return 0;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  // Block these signals before any thread starts. All threads inherit the mask, so only sigwait
  // receives the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A write to a closed connection or beyond the limit of a file's size must fail. It must not end
  // the server.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);

  longstream::ServerConfig config;
  int exit_code = 2;
  const absl::Status status = longstream::ReadCommandLine(argc, argv, &config, &exit_code);
  if (absl::IsCancelled(status)) return exit_code;
  if (!status.ok()) {
    std::cerr << "longstream-server: " << status.message() << "\n";
    return 2;
  }
  return longstream::Serve(config, signals);
}
