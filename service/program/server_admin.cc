// Starts the operators' listener.
#include "service/program/server_admin.h"

#include <utility>

#include "service/program/server_aliases.h"

namespace longstream {

absl::StatusOr<std::unique_ptr<ServerAdmin>> ServerAdmin::Start(const ServerConfig& config,
                                                                const Parts& parts) {
  const bool is_in_fleet = config.fleet.enabled();
  if (config.admin_listen.empty() && !is_in_fleet) return nullptr;
  ModelAdmin::Options options;
  options.model_directories = config.admin_model_directories;
  options.max_batch_tokens = config.max_batch_tokens;
  options.max_batch_sequences = config.max_batch_sequences;
  options.grace = config.grace;
  options.aliases.configured = config.aliases;
  options.aliases.commit_timeout = config.store_commit_timeout;
  if (parts.store != nullptr) options.aliases.commits = parts.store->commits();
  std::unique_ptr<ServerAdmin> admin(new ServerAdmin(parts, std::move(options)));
  if (is_in_fleet) {
    admin->follower_.emplace(parts.store->store(), &admin->admin_.aliases(),
                             LogsFollowed(parts.log));
  }
  if (config.admin_listen.empty()) return admin;
  AdminServer::Options listener;
  listener.listen = config.admin_listen;
  listener.guard = parts.security->guard();
  listener.certificates = parts.security->certificates();
  listener.client_certificates = ClientCertificatesOf(config.tls);
  listener.on_operator_call = parts.security->on_operator_call();
  listener.on_call_end = parts.on_call_end;
  listener.connection_metrics = &admin->connections_;
  absl::StatusOr<std::unique_ptr<AdminServer>> server =
      AdminServer::Start(listener, &admin->admin_);
  if (!server.ok()) return server.status();
  admin->server_ = *std::move(server);
  return admin;
}

}  // namespace longstream
