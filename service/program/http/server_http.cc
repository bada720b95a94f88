#include "service/program/http/server_http.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "service/connections/descriptor_shares.h"

namespace longstream {
namespace {

gateway::Gateway::Options OptionsOf(const HttpConfig& http) {
  gateway::Gateway::Options options;
  options.http.listen = http.listen;
  options.http.limits.body_bytes = http.max_body_bytes;
  options.http.max_held_bytes = std::max(options.http.max_held_bytes, 16 * http.max_body_bytes);
  options.http.max_connections = ServerHttp::MostConnections(http);
  options.http.max_requests = http.max_requests;
  options.turns.limits.sessions = http.max_sessions;
  options.turns.idle_timeout = absl::ToChronoSeconds(http.idle_timeout);
  options.turns.durable = http.durable;
  options.turns.ttl = absl::ToChronoSeconds(http.ttl);
  // The connection to the server cannot be lost.
  options.turns.resume_timeout = std::chrono::milliseconds(0);
  options.default_max_tokens = http.default_max_tokens;
  options.page = http.page;
  options.allowed_origins = http.allowed_origins;
  return options;
}

}  // namespace

size_t ServerHttp::MostConnections(const HttpConfig& config) {
  if (config.listen.empty()) return 0;
  constexpr size_t kPart = 4;  // of the descriptors for clients; the others are for gRPC
  const size_t share = ShareDescriptors(DescriptorLimit()).calls / kPart;
  return std::max<size_t>(1, std::min<size_t>(config.max_connections, share));
}

size_t ServerHttp::MostThreads(const HttpConfig& config) {
  if (config.listen.empty()) return 0;
  constexpr size_t kOfConnections = 1;
  const gateway::Gateway::Options options;
  return kOfConnections + config.max_requests + options.http.max_short_requests +
         options.max_background + options.max_more_turns;
}

absl::StatusOr<std::unique_ptr<ServerHttp>> ServerHttp::Start(
    const HttpConfig& config, std::shared_ptr<const CurrentCertificates> certificates,
    ClientCertificates clients, prometheus::Registry* registry, GrpcServer* server) {
  if (config.listen.empty()) return nullptr;
  std::unique_ptr<ServerHttp> http(new ServerHttp(registry));
  gateway::Gateway::Options options = OptionsOf(config);
  options.http.certificates = std::move(certificates);
  options.http.client_certificates = clients;
  options.metrics = &http->metrics_;
  absl::StatusOr<std::unique_ptr<gateway::Gateway>> gateway =
      gateway::Gateway::Start(options, client::Connection::InProcess(server->NewChannel()));
  if (!gateway.ok()) {
    return absl::UnavailableError(absl::StrCat("http.listen: ", gateway.status().message()));
  }
  http->gateway_ = *std::move(gateway);
  return http;
}

}  // namespace longstream
