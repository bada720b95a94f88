// Makes the calls of an AdminConnection.
#include "client/admin_connection.h"

#include <grpcpp/grpcpp.h>

#include "client/connection.h"
#include "client/interrupt.h"
#include "longstream/admin/v1/admin.grpc.pb.h"

namespace longstream::client {
namespace {

namespace admin_v1 = admin::v1;

// The context of a call. An interrupt cancels the call.
struct Call {
  grpc::ClientContext context;
  OnInterrupt on_interrupt{[this] { context.TryCancel(); }};
};

void Check(const grpc::Status& status) {
  if (status.ok()) return;
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    throw CallError(grpc::Status(status.error_code(),
                                 "this port does not serve operators; --admin names the server's "
                                 "admin.listen"));
  }
  throw CallError(status);
}

template <typename Response>
void ReadStates(grpc::ClientReader<Response>& reader, const AdminConnection::OnState& on_state) {
  Response response;
  while (reader.Read(&response)) on_state(response.model());
  Check(reader.Finish());
}

}  // namespace

struct AdminConnection::Stub {
  explicit Stub(const std::shared_ptr<grpc::Channel>& channel) : admin(channel) {}

  admin_v1::Admin::Stub admin;
};

AdminConnection::AdminConnection(const std::string& address, const ChannelSecurity& security)
    : stub_(std::make_shared<Stub>(MakeChannel(address, security, grpc::ChannelArguments()))) {}

void AdminConnection::Load(const admin_v1::LoadModelRequest& request, const OnState& on_state) {
  Call call;
  ReadStates(*stub_->admin.LoadModel(&call.context, request), on_state);
}

void AdminConnection::Swap(const admin_v1::SwapModelRequest& request, const OnState& on_state) {
  Call call;
  ReadStates(*stub_->admin.SwapModel(&call.context, request), on_state);
}

void AdminConnection::Unload(const admin_v1::UnloadModelRequest& request) {
  Call call;
  admin_v1::UnloadModelResponse response;
  Check(stub_->admin.UnloadModel(&call.context, request, &response));
}

admin_v1::ListModelsResponse AdminConnection::Models() {
  Call call;
  admin_v1::ListModelsResponse response;
  Check(stub_->admin.ListModels(&call.context, {}, &response));
  return response;
}

admin_v1::Alias AdminConnection::Set(const admin_v1::Alias& alias) {
  Call call;
  admin_v1::SetAliasRequest request;
  admin_v1::SetAliasResponse response;
  *request.mutable_alias() = alias;
  Check(stub_->admin.SetAlias(&call.context, request, &response));
  return response.alias();
}

void AdminConnection::Delete(const std::string& alias) {
  Call call;
  admin_v1::DeleteAliasRequest request;
  admin_v1::DeleteAliasResponse response;
  request.set_name(alias);
  Check(stub_->admin.DeleteAlias(&call.context, request, &response));
}

admin_v1::ListAliasesResponse AdminConnection::Aliases() {
  Call call;
  admin_v1::ListAliasesResponse response;
  Check(stub_->admin.ListAliases(&call.context, {}, &response));
  return response;
}

}  // namespace longstream::client
