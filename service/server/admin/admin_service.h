// The gRPC service of operators. It translates its calls to ModelAdmin and AliasAdmin.
#ifndef LONGSTREAM_SERVICE_SERVER_ADMIN_ADMIN_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_ADMIN_ADMIN_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "longstream/admin/v1/admin.pb.h"
#include "service/server/transport/decoding_service.h"
#include "service/serving/models/model_admin.h"

namespace longstream {

// Thread-safe. Must outlive its calls. The results of operations may come when a call has ended.
class AdminService final : public DecodingService {
 public:
  // The arguments must outlive the calls.
  AdminService(ModelAdmin* admin, RequestMemory* memory, Authorize authorize);

 private:
  grpc::ServerWriteReactor<admin::v1::LoadModelResponse>* LoadModel(
      grpc::CallbackServerContext* context, const Caller& caller,
      Decoded<admin::v1::LoadModelRequest> request);
  grpc::ServerWriteReactor<admin::v1::SwapModelResponse>* SwapModel(
      grpc::CallbackServerContext* context, const Caller& caller,
      Decoded<admin::v1::SwapModelRequest> request);
  grpc::ServerUnaryReactor* UnloadModel(grpc::CallbackServerContext* context, const Caller& caller,
                                        const admin::v1::UnloadModelRequest& request,
                                        admin::v1::UnloadModelResponse* response);
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const Caller& caller,
                                       const admin::v1::ListModelsRequest& request,
                                       admin::v1::ListModelsResponse* response);
  grpc::ServerUnaryReactor* SetAlias(grpc::CallbackServerContext* context, const Caller& caller,
                                     const admin::v1::SetAliasRequest& request,
                                     admin::v1::SetAliasResponse* response);
  grpc::ServerUnaryReactor* DeleteAlias(grpc::CallbackServerContext* context, const Caller& caller,
                                        const admin::v1::DeleteAliasRequest& request,
                                        admin::v1::DeleteAliasResponse* response);
  grpc::ServerUnaryReactor* ListAliases(grpc::CallbackServerContext* context, const Caller& caller,
                                        const admin::v1::ListAliasesRequest& request,
                                        admin::v1::ListAliasesResponse* response);

  ModelAdmin* const admin_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_ADMIN_ADMIN_SERVICE_H_
