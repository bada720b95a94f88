// Decides who makes a call, before the call's request is decoded.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_AUTHORIZE_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_AUTHORIZE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/security/caller.h"
#include "service/security/guard.h"

namespace longstream {

// Returns who makes the call of `method` ("/longstream.v1.Longstream/GetModel"), or the status with
// which the call ends. Thread-safe.
using Authorize = std::function<absl::StatusOr<Caller>(const grpc::CallbackServerContext& context,
                                                       std::string_view method)>;

// For a server that asks nobody for a credential. UNAUTHENTICATED: the client's certificate has
// expired since the connection began.
absl::StatusOr<Caller> AuthorizeEverybody(const grpc::CallbackServerContext& context,
                                          std::string_view method);

// Asks the guard, with the credentials that the call and its connection have. `guard` must outlive
// the calls.
Authorize AuthorizeWith(const Guard* guard);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_AUTHORIZE_H_
