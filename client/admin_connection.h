// The calls of operators.
#ifndef LONGSTREAM_CLIENT_ADMIN_CONNECTION_H_
#define LONGSTREAM_CLIENT_ADMIN_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/channel.h"
#include "longstream/admin/v1/admin.pb.h"

namespace longstream::client {

// Thread-safe. Calls block and throw CallError (client/connection.h); an interrupt cancels them,
// but the operation goes on.
class AdminConnection {
 public:
  // Connects at the first call. `address`: unix:PATH or host:port. Throws std::invalid_argument as
  // MakeChannel does (client/channel.h).
  AdminConnection(const std::string& address, const ChannelSecurity& security);

  // Calls `on_state` for each state of the model, the last one READY.
  using OnState = std::function<void(const admin::v1::Model& model)>;
  void Load(const admin::v1::LoadModelRequest& request, const OnState& on_state);
  void Swap(const admin::v1::SwapModelRequest& request, const OnState& on_state);
  void Unload(const admin::v1::UnloadModelRequest& request);
  admin::v1::ListModelsResponse Models();
  // Returns the alias as it is now.
  admin::v1::Alias Set(const admin::v1::Alias& alias);
  void Delete(const std::string& alias);
  admin::v1::ListAliasesResponse Aliases();

 private:
  struct Stub;  // defined in admin_connection.cc, because gRPC's headers take seconds to compile
  std::shared_ptr<Stub> stub_;
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_ADMIN_CONNECTION_H_
