// Converts absl::Status to grpc::Status.
#include "service/server/transport/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/rpc/status.pb.h"

namespace longstream {
namespace {

// The delay before a retry. It is long enough for some turn to end, and short enough that a client
// hardly notices it.
constexpr int64_t kRetrySeconds = 1;

std::string RetryDetails(const absl::Status& status) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(kRetrySeconds);
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(absl::StrCat(status.message()));
  details.add_details()->PackFrom(retry);
  return details.SerializeAsString();
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), absl::StrCat(status.message()),
                      absl::IsResourceExhausted(status) ? RetryDetails(status) : std::string());
}

}  // namespace longstream
