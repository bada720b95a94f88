// The details that a server sends with an error, for programs.
#ifndef LONGSTREAM_CLIENT_ERRORS_ERROR_DETAILS_H_
#define LONGSTREAM_CLIENT_ERRORS_ERROR_DETAILS_H_

#include <grpcpp/support/status.h>

#include <chrono>
#include <optional>
#include <string>

#include "google/rpc/status.pb.h"

namespace longstream::client {

// The time after which the server wants the same request again: google.rpc.RetryInfo. Absent: it
// does not say when, or has not sent the error.
inline std::optional<std::chrono::milliseconds> RetryDelay(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::RetryInfo retry;
    if (!detail.Is<google::rpc::RetryInfo>() || !detail.UnpackTo(&retry)) continue;
    constexpr int kNanos = 1'000'000;
    return std::chrono::seconds(retry.retry_delay().seconds()) +
           std::chrono::milliseconds(retry.retry_delay().nanos() / kNanos);
  }
  return std::nullopt;
}

// The address (host:port) of the server that has the session, if the server does not fetch it from
// there (fleet.foreign: redirect): google.rpc.ErrorInfo with the reason SESSION_ELSEWHERE. The same
// request may be sent there. Empty: another error.
inline std::string AddressOfSession(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return "";
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (!detail.Is<google::rpc::ErrorInfo>() || !detail.UnpackTo(&info)) continue;
    if (info.domain() != "longstream" || info.reason() != "SESSION_ELSEWHERE") continue;
    for (const auto& entry : info.metadata()) {
      if (entry.key() == "address") return entry.value();
    }
  }
  return "";
}

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_ERRORS_ERROR_DETAILS_H_
