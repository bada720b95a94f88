// The operators' part of a running server: its listener, and the operations on models.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_ADMIN_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_ADMIN_H_

#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "service/config/server_config.h"
#include "service/metrics/connection_metrics.h"
#include "service/metrics/json_log.h"
#include "service/program/server_security.h"
#include "service/program/server_store.h"
#include "service/server/admin/admin_server.h"
#include "service/serving/models/alias_follower.h"
#include "service/serving/models/model_admin.h"

namespace longstream {

class ServerAdmin {
 public:
  // All outlive the object.
  struct Parts {
    const ServerSecurity* security;
    prometheus::Registry* registry;
    const JsonLog* log;
    ModelRegistry* models;
    SessionManager* sessions;
    ServerStore* store;  // nullptr: the configuration wants none
    decltype(AdminServer::Options::on_call_end) on_call_end;
  };

  // In a fleet, the server also takes over the aliases that are changed at other replicas. Returns
  // null if the configuration wants neither that nor a listener for operators. Errors are those of
  // AdminServer::Start. Of the parts of a server that may fail, this is started last, so that no
  // operation begins on a server that does not start.
  static absl::StatusOr<std::unique_ptr<ServerAdmin>> Start(const ServerConfig& config,
                                                            const Parts& parts);

  // 0: there is none, or a Unix socket.
  int port() const { return server_ == nullptr ? 0 : server_->port(); }
  // Ends the calls. A load that has begun goes on; no session moves and no version goes any more.
  void Shutdown() {
    if (follower_.has_value()) follower_->Stop();
    if (server_ != nullptr) server_->Shutdown();
    admin_.Stop();
  }

 private:
  ServerAdmin(const Parts& parts, ModelAdmin::Options options)
      : connections_(parts.registry, "admin"),
        admin_(parts.models, parts.sessions, std::move(options)) {}

  ConnectionMetrics connections_;
  ModelAdmin admin_;
  // These end before the members above, which they use.
  std::unique_ptr<AdminServer> server_;
  std::optional<AliasFollower> follower_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_ADMIN_H_
