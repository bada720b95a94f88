// Keeps the time as a payload of the status.
#include "service/security/tenants/retry_after.h"

#include <string>

#include "absl/strings/cord.h"

namespace longstream {
namespace {

constexpr const char* kPayload = "longstream.retry_after";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration after) {
  status.SetPayload(kPayload, absl::Cord(absl::FormatDuration(after)));
  return status;
}

std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  absl::Duration after;
  if (!payload.has_value() || !absl::ParseDuration(std::string(*payload), &after)) {
    return std::nullopt;
  }
  return after;
}

}  // namespace longstream
