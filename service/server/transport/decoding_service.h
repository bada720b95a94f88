// A gRPC service that decodes its requests itself (see wire_decoder.h). Its methods get
// decoded messages, as those of a service that protoc generates.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_DECODING_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_DECODING_SERVICE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>

#include <utility>

#include "service/server/transport/grpc_status.h"
#include "service/server/transport/raw_request.h"

namespace longstream {

// The constructor of a subclass adds its methods. `path` is the path of the method, such as
// "/longstream.v1.Longstream/GetModel", and must be a literal. If a request cannot be decoded, the
// call ends with the error, and the method is not called.
class DecodingService : public grpc::Service {
 protected:
  // `memory` must outlive the service.
  explicit DecodingService(RequestMemory* memory) : memory_(memory) {}

  // Counts the requests that a reactor decodes.
  RequestMemory* memory() const { return memory_; }

  // A unary call. The request exists until the method returns.
  template <typename Service, typename Request, typename Response>
  void AddUnary(const char* path,
                grpc::ServerUnaryReactor* (Service::*method)(grpc::CallbackServerContext*,
                                                             const Request&, Response*)) {
    const auto call = [this, method](grpc::CallbackServerContext* context,
                                     const RawRequest<Request>* raw,
                                     Response* response) -> grpc::ServerUnaryReactor* {
      const absl::StatusOr<Decoded<Request>> request = Decode(*raw, memory_);
      if (request.ok()) {
        return (static_cast<Service*>(this)->*method)(context, *request->message, response);
      }
      grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
      reactor->Finish(ToGrpc(request.status()));
      return reactor;
    };
    Add(path, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::CallbackUnaryHandler<RawRequest<Request>, Response>(call));
  }

  // A call with one request and a stream of responses. The method keeps the request as long as it
  // needs it.
  template <typename Service, typename Request, typename Response>
  void AddServerStream(const char* path, grpc::ServerWriteReactor<Response>* (Service::*method)(
                                             grpc::CallbackServerContext*, Decoded<Request>)) {
    const auto call = [this, method](
                          grpc::CallbackServerContext* context,
                          const RawRequest<Request>* raw) -> grpc::ServerWriteReactor<Response>* {
      absl::StatusOr<Decoded<Request>> request = Decode(*raw, memory_);
      if (!request.ok()) return new RefusedStream<Response>(ToGrpc(request.status()));
      return (static_cast<Service*>(this)->*method)(context, *std::move(request));
    };
    Add(path, grpc::internal::RpcMethod::SERVER_STREAMING,
        new grpc::internal::CallbackServerStreamingHandler<RawRequest<Request>, Response>(call));
  }

  // A call with a stream of requests. The reactor decodes them.
  template <typename Service, typename Request, typename Response>
  void AddClientStream(const char* path,
                       grpc::ServerReadReactor<RawRequest<Request>>* (Service::*method)(
                           grpc::CallbackServerContext*, Response*)) {
    const auto call = [this, method](grpc::CallbackServerContext* context, Response* response) {
      return (static_cast<Service*>(this)->*method)(context, response);
    };
    Add(path, grpc::internal::RpcMethod::CLIENT_STREAMING,
        new grpc::internal::CallbackClientStreamingHandler<RawRequest<Request>, Response>(call));
  }

  // A call with a stream of requests and a stream of responses. The reactor decodes the requests.
  template <typename Service, typename Request, typename Response>
  void AddBidiStream(const char* path, grpc::ServerBidiReactor<RawRequest<Request>, Response>* (
                                           Service::*method)(grpc::CallbackServerContext*)) {
    const auto call = [this, method](grpc::CallbackServerContext* context) {
      return (static_cast<Service*>(this)->*method)(context);
    };
    Add(path, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::CallbackBidiHandler<RawRequest<Request>, Response>(call));
  }

 private:
  // Ends a call whose request was refused.
  template <typename Response>
  class RefusedStream final : public grpc::ServerWriteReactor<Response> {
   public:
    explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
    void OnDone() override { delete this; }
  };

  void Add(const char* path, grpc::internal::RpcMethod::RpcType type,
           grpc::internal::MethodHandler* handler) {
    auto* method = new grpc::internal::RpcServiceMethod(path, type, handler);
    method->SetServerApiType(grpc::internal::RpcServiceMethod::ApiType::RAW_CALL_BACK);
    AddMethod(method);  // takes ownership
  }

  RequestMemory* const memory_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_DECODING_SERVICE_H_
