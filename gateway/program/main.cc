// The program longstream-gateway: OpenAI's HTTP API before a server.
#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "absl/time/time.h"
#include "client/connection.h"
#include "gateway/gateway.h"
#include "gateway/gateway_metrics.h"
#include "service/connections/descriptor_shares.h"
#include "service/metrics/json_log.h"
#include "service/scrapes/metrics_server.h"
#include "service/security/loopback.h"
#include "service/security/origin.h"

namespace longstream::gateway {
namespace {

// How long the gateway closes its sessions when it ends. Others end by themselves.
constexpr std::chrono::milliseconds kGoodbye{5000};

struct Flags {
  std::string server = "localhost:50051";
  std::string metrics_listen;
  client::ChannelSecurity security;
  Gateway::Options gateway;
  int idle_seconds = 600;
  int ttl_seconds = 86400;
  int grace_seconds = 30;
};

void AddFlags(CLI::App& app, Flags* flags) {
  constexpr int kMostSeconds = 86400;
  app.add_option("--server", flags->server, "host:port of the server")->capture_default_str();
  app.add_option("--listen", flags->gateway.http.listen, "host:port for HTTP")
      ->capture_default_str();
  app.add_option("--metrics-listen", flags->metrics_listen,
                 "host:port for Prometheus; empty: none");
  app.add_flag("--tls", flags->security.tls, "connect to the server by TLS");
  app.add_option("--ca", flags->security.ca, "authorities of the server's certificate (PEM)");
  app.add_option("--cert", flags->security.certificate,
                 "the gateway's certificate (PEM); then clients need credentials of their own");
  app.add_option("--key", flags->security.key, "key of the gateway's certificate (PEM)");
  app.add_option("--max-connections", flags->gateway.http.max_connections, "connections of clients")
      ->capture_default_str();
  app.add_option("--max-requests", flags->gateway.http.max_requests,
                 "requests that are answered at once")
      ->capture_default_str();
  app.add_option("--max-body-bytes", flags->gateway.http.limits.body_bytes, "of one request")
      ->capture_default_str();
  app.add_option("--max-sessions", flags->gateway.turns.limits.sessions,
                 "sessions that are kept for conversations")
      ->capture_default_str();
  app.add_option("--idle-timeout", flags->idle_seconds,
                 "seconds that a conversation's session stays without requests")
      ->check(CLI::Range(1, kMostSeconds))
      ->capture_default_str();
  app.add_flag("--durable", flags->gateway.turns.durable,
               "store each turn before its answer ends; needs a server with a store");
  app.add_option("--ttl", flags->ttl_seconds,
                 "seconds that a durable session stays in the store without turns")
      ->check(CLI::Range(60, 365 * kMostSeconds))
      ->capture_default_str();
  app.add_option("--default-max-tokens", flags->gateway.default_max_tokens,
                 "of chats that name none; 0: to the end of the context")
      ->capture_default_str();
  app.add_flag("!--no-page", flags->gateway.page, "offer no web page");
  app.add_option("--allowed-origin", flags->gateway.allowed_origins,
                 "origin of web pages that may use the gateway, such as https://chat.example.com;"
                 " * for all; may be repeated")
      ->check([](const std::string& origin) { return OriginError(origin).value_or(""); });
  app.add_option("--grace", flags->grace_seconds, "seconds for running requests after SIGTERM")
      ->check(CLI::Range(0, kMostSeconds))
      ->capture_default_str();
}

int Serve(Flags flags, const sigset_t& signals) {
  JsonLog log("info");
  const auto fail = [&log](const std::string& error) {
    log.Write(LogLevel::kError, "start_failed", {{"error", error}});
    return 1;
  };
  const auto registry = std::make_shared<prometheus::Registry>();
  GatewayMetrics metrics(registry.get());
  std::unique_ptr<MetricsServer> scrapes;
  if (!flags.metrics_listen.empty()) {
    auto started = MetricsServer::Start(flags.metrics_listen, registry);
    if (!started.ok()) return fail(std::string(started.status().message()));
    scrapes = *std::move(started);
  }
  flags.gateway.turns.ttl = std::chrono::seconds(flags.ttl_seconds);
  flags.gateway.turns.idle_timeout = std::chrono::seconds(flags.idle_seconds);
  flags.gateway.metrics = &metrics;
  flags.gateway.needs_credential = !flags.security.certificate.empty();
  flags.gateway.http.max_connections =
      std::min(flags.gateway.http.max_connections, ShareDescriptors(DescriptorLimit()).calls);
  if (!IsLoopback(flags.gateway.http.listen)) {
    log.Write(LogLevel::kWarning, "open_to_network",
              {{"listen", flags.gateway.http.listen},
               {"text",
                "credentials, prompts and answers go over the network in plain text; put a"
                " proxy with TLS before the gateway, or listen on 127.0.0.1"}});
  }
  try {
    const client::Connection connection(flags.server, flags.security);
    auto gateway = Gateway::Start(flags.gateway, connection);
    if (!gateway.ok()) return fail(std::string(gateway.status().message()));
    log.Write(LogLevel::kInfo, "listening",
              {{"port", std::to_string((*gateway)->port())},
               {"metrics_port", std::to_string(scrapes == nullptr ? 0 : scrapes->port())},
               {"server", flags.server}});
    int signal = 0;
    sigwait(&signals, &signal);
    log.Write(LogLevel::kInfo, "draining", {{"signal", std::to_string(signal)}});
    (*gateway)->Shutdown(absl::Seconds(flags.grace_seconds));
    (*gateway)->CloseSessions(kGoodbye);
  } catch (const std::invalid_argument& error) {
    return fail(error.what());
  }
  log.Write(LogLevel::kInfo, "stopped", {});
  return 0;
}

}  // namespace

int Main(int argc, char** argv) {
  // All threads of the process begin with these signals blocked.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app("Longstream's gateway: OpenAI's HTTP API before a longstream-server.");
  app.set_version_flag("--version", "longstream-gateway " LONGSTREAM_VERSION);
  Flags flags;
  AddFlags(app, &flags);
  CLI11_PARSE(app, argc, argv);
  return Serve(std::move(flags), signals);
}

}  // namespace longstream::gateway

int main(int argc, char** argv) { return longstream::gateway::Main(argc, argv); }
