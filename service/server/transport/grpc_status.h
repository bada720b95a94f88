// Converts an absl::Status to a gRPC status, with the details that clients use.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_GRPC_STATUS_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace longstream {

// The numbers of the codes do not change. RESOURCE_EXHAUSTED and UNAVAILABLE carry
// google.rpc.RetryInfo, unless waiting does not help (UntilMended). FAILED_PRECONDITION with an
// owner (fleet::OwnerOf) carries google.rpc.ErrorInfo: the reason SESSION_ELSEWHERE of the domain
// longstream, with the metadata `owner` and `address`.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_GRPC_STATUS_H_
