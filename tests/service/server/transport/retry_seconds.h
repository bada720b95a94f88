// When a server wants a call again.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_RETRY_SECONDS_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_RETRY_SECONDS_H_

#include <grpcpp/support/status.h>

#include <optional>

#include "google/rpc/status.pb.h"

namespace longstream {

// The delay of google.rpc.RetryInfo in the details, in seconds. Absent: the error has none.
inline std::optional<double> RetrySeconds(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& detail : details.details()) {
    google::rpc::RetryInfo retry;
    if (!detail.UnpackTo(&retry)) continue;
    return static_cast<double>(retry.retry_delay().seconds()) +
           1e-9 * static_cast<double>(retry.retry_delay().nanos());
  }
  return std::nullopt;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_RETRY_SECONDS_H_
