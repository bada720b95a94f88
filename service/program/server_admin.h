// The operators' part of a running server: its listener, and the operations on models.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_ADMIN_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_ADMIN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/config/server_config.h"
#include "service/program/server_security.h"
#include "service/program/server_store.h"
#include "service/server/admin/admin_server.h"
#include "service/serving/models/model_admin.h"

namespace longstream {

class ServerAdmin {
 public:
  using OnCallEnd = decltype(AdminServer::Options::on_call_end);

  // Returns null if the configuration wants no listener for operators. `store`: nullptr if it wants
  // none. The arguments outlive the object. Errors are those of AdminServer::Start. Of the parts of
  // a server that may fail, this is started last, so that no operation begins on a server that does
  // not start.
  static absl::StatusOr<std::unique_ptr<ServerAdmin>> Start(
      const ServerConfig& config, const ServerSecurity& security, ModelRegistry* models,
      SessionManager* sessions, ServerStore* store, OnCallEnd on_call_end);

  int port() const { return server_->port(); }
  // Ends the calls. A load that has begun goes on; no session moves and no version goes any more.
  void Shutdown() {
    server_->Shutdown();
    admin_.Stop();
  }

 private:
  ServerAdmin(ModelRegistry* models, SessionManager* sessions, ModelAdmin::Options options)
      : admin_(models, sessions, std::move(options)) {}

  ModelAdmin admin_;
  std::unique_ptr<AdminServer> server_;  // ends before admin_, which it uses
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_ADMIN_H_
