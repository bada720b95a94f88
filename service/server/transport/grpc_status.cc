// Converts absl::Status to grpc::Status.
#include "service/server/transport/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "service/security/tenants/retry_after.h"

namespace longstream {
namespace {

// The delay before a retry, if the error does not say more. It is long enough for some turn to end,
// and short enough that a client hardly notices it.
constexpr absl::Duration kRetryAfter = absl::Seconds(1);

std::string RetryDetails(const absl::Status& status) {
  const absl::Duration after = RetryAfterOf(status).value_or(kRetryAfter);
  if (after == absl::InfiniteDuration()) return "";  // waiting does not help
  constexpr int64_t kNanos = 1'000'000'000;
  const int64_t nanos = absl::ToInt64Nanoseconds(after);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(nanos / kNanos);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % kNanos));
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(absl::StrCat(status.message()));
  details.add_details()->PackFrom(retry);
  return details.SerializeAsString();
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const bool says_when = absl::IsResourceExhausted(status) || RetryAfterOf(status).has_value();
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), absl::StrCat(status.message()),
                      says_when ? RetryDetails(status) : std::string());
}

}  // namespace longstream
