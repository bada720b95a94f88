// Starts the operators' listener.
#include "service/program/server_admin.h"

#include <utility>

namespace longstream {

absl::StatusOr<std::unique_ptr<ServerAdmin>> ServerAdmin::Start(
    const ServerConfig& config, const ServerSecurity& security, ModelRegistry* models,
    SessionManager* sessions, ServerStore* store, OnCallEnd on_call_end) {
  if (config.admin_listen.empty()) return nullptr;
  ModelAdmin::Options options;
  options.model_directories = config.admin_model_directories;
  options.max_batch_tokens = config.max_batch_tokens;
  options.max_batch_sequences = config.max_batch_sequences;
  options.grace = config.grace;
  options.aliases.configured = config.aliases;
  options.aliases.commit_timeout = config.store_commit_timeout;
  if (store != nullptr) options.aliases.commits = store->commits();
  std::unique_ptr<ServerAdmin> admin(new ServerAdmin(models, sessions, std::move(options)));
  AdminServer::Options listener;
  listener.listen = config.admin_listen;
  listener.guard = security.guard();
  listener.certificates = security.certificates();
  listener.client_certificates = ClientCertificatesOf(config.tls);
  listener.on_operator_call = security.on_operator_call();
  listener.on_call_end = std::move(on_call_end);
  absl::StatusOr<std::unique_ptr<AdminServer>> server =
      AdminServer::Start(listener, &admin->admin_);
  if (!server.ok()) return server.status();
  admin->server_ = *std::move(server);
  return admin;
}

}  // namespace longstream
