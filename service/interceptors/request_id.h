// The id of a call, with which a client's report and the server's log can be put together.
#ifndef LONGSTREAM_SERVICE_INTERCEPTORS_REQUEST_ID_H_
#define LONGSTREAM_SERVICE_INTERCEPTORS_REQUEST_ID_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace longstream {

// The key of the metadata that carries the id, in both directions.
inline constexpr char kRequestIdKey[] = "x-request-id";
inline constexpr size_t kMaxRequestIdBytes = 128;

// Whether a client's id is used: 1 ... kMaxRequestIdBytes printable ASCII characters, no spaces.
bool IsRequestId(std::string_view text);

// Called when a call ends. `method` is like "/longstream.v1.Longstream/Generate".
// Called from any thread.
using CallEndListener = std::function<void(std::string_view request_id, std::string_view method,
                                           const absl::Status& status)>;

// Called when a call arrives. `peer` is the client's address as gRPC writes it, such as
// "ipv4:127.0.0.1:4711". Called from any thread.
using CallArrivalListener = std::function<void(std::string_view peer)>;

// The id of a call whose server has RequestIdInterceptors. Valid while the context is.
std::string_view RequestIdOf(const grpc::ServerContextBase& context);

// Gives every call of the server an id: the client's x-request-id if it is a valid one, otherwise
// 32 random hexadecimal digits. The id goes back to the client in the initial metadata, and again
// in the trailing metadata of a call that ends with an error. Either listener may be empty.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
RequestIdInterceptors(CallArrivalListener on_arrival, CallEndListener on_end);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_INTERCEPTORS_REQUEST_ID_H_
