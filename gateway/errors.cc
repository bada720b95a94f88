#include "gateway/errors.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "client/errors/error_details.h"
#include "gateway/http/problem.h"

namespace longstream::gateway {

int HttpStatusOf(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
      return 400;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::ALREADY_EXISTS:
      return 409;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::UNIMPLEMENTED:
      return 501;
    case grpc::StatusCode::UNAVAILABLE:
      return 503;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return 504;
    default:
      return 500;
  }
}

HttpAnswer ErrorAnswer(const grpc::Status& status) {
  const std::string name =
      absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
  HttpAnswer answer =
      ProblemAnswer(HttpStatusOf(status), status.error_message(), "", absl::AsciiStrToLower(name));
  std::optional<std::chrono::milliseconds> delay = client::RetryDelay(status);
  // A server that cannot be reached names no time.
  if (answer.status == 503 && !delay.has_value()) delay = std::chrono::seconds(1);
  if (delay.has_value()) {
    // HTTP counts whole seconds.
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*delay);
    answer.headers.emplace_back("Retry-After",
                                std::to_string(std::max<int64_t>(1, seconds.count())));
  }
  return answer;
}

}  // namespace longstream::gateway
