// A gRPC service that decodes its requests itself (see wire_decoder.h). Its methods get
// decoded messages, as those of a service that protoc generates.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_DECODING_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_DECODING_SERVICE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/security/caller.h"
#include "service/server/transport/authorize.h"
#include "service/server/transport/grpc_status.h"
#include "service/server/transport/raw_request.h"

namespace longstream {

// The constructor of a subclass adds its methods. `path` is the path of the method, such as
// "/longstream.v1.Longstream/GetModel", and must be a literal. If a call is not authorized, or its
// request cannot be decoded, the call ends with the error, and the method is not called. A method
// gets the call's Caller, which exists until the method returns.
class DecodingService : public grpc::Service {
 public:
  // The paths of all methods.
  const std::vector<std::string>& methods() const { return methods_; }

 protected:
  // `memory` must outlive the service.
  DecodingService(RequestMemory* memory, Authorize authorize)
      : memory_(memory), authorize_(std::move(authorize)) {}

  // Counts the requests that a reactor decodes.
  RequestMemory* memory() const { return memory_; }

  // A unary call. The request exists until the method returns.
  template <typename Service, typename Request, typename Response>
  void AddUnary(const char* path,
                grpc::ServerUnaryReactor* (Service::*method)(grpc::CallbackServerContext*,
                                                             const Caller&, const Request&,
                                                             Response*)) {
    AddUnaryCall<Request, Response>(
        path, [this, method](grpc::CallbackServerContext* context, const Caller& caller,
                             const Decoded<Request>& request, Response* response) {
          return (static_cast<Service*>(this)->*method)(context, caller, *request.message,
                                                        response);
        });
  }
  // The same, but the method keeps the request as long as it needs it.
  template <typename Service, typename Request, typename Response>
  void AddUnary(const char* path,
                grpc::ServerUnaryReactor* (Service::*method)(grpc::CallbackServerContext*,
                                                             const Caller&, Decoded<Request>,
                                                             Response*)) {
    AddUnaryCall<Request, Response>(
        path, [this, method](grpc::CallbackServerContext* context, const Caller& caller,
                             Decoded<Request> request, Response* response) {
          return (static_cast<Service*>(this)->*method)(context, caller, std::move(request),
                                                        response);
        });
  }

  // A call with one request and a stream of responses. The method keeps the request as long as it
  // needs it.
  template <typename Service, typename Request, typename Response>
  void AddServerStream(const char* path,
                       grpc::ServerWriteReactor<Response>* (Service::*method)(
                           grpc::CallbackServerContext*, const Caller&, Decoded<Request>)) {
    using Reactor = grpc::ServerWriteReactor<Response>;
    const auto call = [this, path, method](grpc::CallbackServerContext* context,
                                           const RawRequest<Request>* raw) -> Reactor* {
      const absl::StatusOr<Caller> caller = authorize_(*context, path);
      if (!caller.ok()) return new Refused<Reactor>(caller.status());
      absl::StatusOr<Decoded<Request>> request = Decode(*raw, memory_);
      if (!request.ok()) return new Refused<Reactor>(request.status());
      return (static_cast<Service*>(this)->*method)(context, *caller, *std::move(request));
    };
    Add(path, grpc::internal::RpcMethod::SERVER_STREAMING,
        new grpc::internal::CallbackServerStreamingHandler<RawRequest<Request>, Response>(call));
  }

  // A call with a stream of requests. The reactor decodes them.
  template <typename Service, typename Request, typename Response>
  void AddClientStream(const char* path,
                       grpc::ServerReadReactor<RawRequest<Request>>* (Service::*method)(
                           grpc::CallbackServerContext*, const Caller&, Response*)) {
    using Reactor = grpc::ServerReadReactor<RawRequest<Request>>;
    const auto call = [this, path, method](grpc::CallbackServerContext* context,
                                           Response* response) -> Reactor* {
      const absl::StatusOr<Caller> caller = authorize_(*context, path);
      if (!caller.ok()) return new Refused<Reactor>(caller.status());
      return (static_cast<Service*>(this)->*method)(context, *caller, response);
    };
    Add(path, grpc::internal::RpcMethod::CLIENT_STREAMING,
        new grpc::internal::CallbackClientStreamingHandler<RawRequest<Request>, Response>(call));
  }

  // A call with a stream of requests and a stream of responses. The reactor decodes the requests.
  template <typename Service, typename Request, typename Response>
  void AddBidiStream(const char* path,
                     grpc::ServerBidiReactor<RawRequest<Request>, Response>* (Service::*method)(
                         grpc::CallbackServerContext*, const Caller&)) {
    using Reactor = grpc::ServerBidiReactor<RawRequest<Request>, Response>;
    const auto call = [this, path, method](grpc::CallbackServerContext* context) -> Reactor* {
      const absl::StatusOr<Caller> caller = authorize_(*context, path);
      if (!caller.ok()) return new Refused<Reactor>(caller.status());
      return (static_cast<Service*>(this)->*method)(context, *caller);
    };
    Add(path, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::CallbackBidiHandler<RawRequest<Request>, Response>(call));
  }

 private:
  // Ends a call that was refused before its method was called.
  template <typename Reactor>
  class Refused final : public Reactor {
   public:
    explicit Refused(const absl::Status& status) { this->Finish(ToGrpc(status)); }
    void OnDone() override { delete this; }
  };

  // `method`: gets the context, the caller, the decoded request and the response.
  template <typename Request, typename Response, typename Method>
  void AddUnaryCall(const char* path, Method method) {
    const auto call = [this, path, method = std::move(method)](
                          grpc::CallbackServerContext* context, const RawRequest<Request>* raw,
                          Response* response) -> grpc::ServerUnaryReactor* {
      const auto end = [context](const absl::Status& status) {
        grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
        reactor->Finish(ToGrpc(status));
        return reactor;
      };
      const absl::StatusOr<Caller> caller = authorize_(*context, path);
      if (!caller.ok()) return end(caller.status());
      absl::StatusOr<Decoded<Request>> request = Decode(*raw, memory_);
      if (!request.ok()) return end(request.status());
      return method(context, *caller, *std::move(request), response);
    };
    Add(path, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::CallbackUnaryHandler<RawRequest<Request>, Response>(call));
  }

  void Add(const char* path, grpc::internal::RpcMethod::RpcType type,
           grpc::internal::MethodHandler* handler) {
    auto* method = new grpc::internal::RpcServiceMethod(path, type, handler);
    method->SetServerApiType(grpc::internal::RpcServiceMethod::ApiType::RAW_CALL_BACK);
    AddMethod(method);  // takes ownership
    methods_.emplace_back(path);
  }

  RequestMemory* const memory_;
  const Authorize authorize_;
  std::vector<std::string> methods_;
};

// The paths of all methods of these services.
inline std::vector<std::string> MethodsOf(std::initializer_list<const DecodingService*> services) {
  std::vector<std::string> paths;
  for (const DecodingService* const service : services) {
    paths.insert(paths.end(), service->methods().begin(), service->methods().end());
  }
  return paths;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_DECODING_SERVICE_H_
