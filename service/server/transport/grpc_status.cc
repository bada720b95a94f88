// Converts absl::Status to grpc::Status.
#include "service/server/transport/grpc_status.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "service/errors/retry_after.h"
#include "service/fleet/session_owner.h"

namespace longstream {
namespace {

// The delays before a retry, if the error does not say more. They are short enough that a client
// hardly notices them. In the first one, some turn ends and gives room.
constexpr absl::Duration kRetryWhenFull = absl::Seconds(1);
// In this one a handover ends, the lease of a replica that is gone may end, or another replica
// takes the call. Models and stores that need longer are not asked too often.
constexpr absl::Duration kRetryWhenUnavailable = absl::Milliseconds(500);

// The domain of google.rpc.ErrorInfo.
constexpr const char* kDomain = "longstream";

google::rpc::Status DetailsOf(const absl::Status& status) {
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(absl::StrCat(status.message()));
  return details;
}

// When a client may send the call again. InfiniteDuration: waiting does not help.
absl::Duration RetryAfter(const absl::Status& status) {
  if (const auto after = RetryAfterOf(status); after.has_value()) return *after;
  if (absl::IsResourceExhausted(status)) return kRetryWhenFull;
  if (absl::IsUnavailable(status)) return kRetryWhenUnavailable;
  return absl::InfiniteDuration();
}

void AddRetryInfo(absl::Duration after, google::rpc::Status* details) {
  constexpr int64_t kNanos = 1'000'000'000;
  const int64_t nanos = absl::ToInt64Nanoseconds(after);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(nanos / kNanos);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % kNanos));
  details->add_details()->PackFrom(retry);
}

void AddOwner(const fleet::SessionOwner& owner, google::rpc::Status* details) {
  google::rpc::ErrorInfo info;
  info.set_reason("SESSION_ELSEWHERE");
  info.set_domain(kDomain);
  const auto add = [&info](const char* key, const std::string& value) {
    auto* const entry = info.add_metadata();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("address", owner.client_address);
  add("owner", owner.name);
  details->add_details()->PackFrom(info);
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details = DetailsOf(status);
  const absl::Duration after = RetryAfter(status);
  if (after != absl::InfiniteDuration()) AddRetryInfo(after, &details);
  if (absl::IsFailedPrecondition(status)) {
    const std::optional<fleet::SessionOwner> owner = fleet::OwnerOf(status);
    if (owner.has_value()) AddOwner(*owner, &details);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), absl::StrCat(status.message()),
                      details.details_size() > 0 ? details.SerializeAsString() : std::string());
}

}  // namespace longstream
