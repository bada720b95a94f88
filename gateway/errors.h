// Errors of the server as answers of HTTP.
#ifndef LONGSTREAM_GATEWAY_ERRORS_H_
#define LONGSTREAM_GATEWAY_ERRORS_H_

#include <grpcpp/support/status.h>

#include "gateway/http/http_message.h"

namespace longstream::gateway {

// The status of HTTP for an error of gRPC.
int HttpStatusOf(const grpc::Status& status);

// The answer, with Retry-After if the server has said when it wants the request again.
HttpAnswer ErrorAnswer(const grpc::Status& status);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ERRORS_H_
