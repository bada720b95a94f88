// Keeps the time as a payload of the status.
#include "service/errors/retry_after.h"

#include <string>
#include <utility>

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

absl::Status WithRetryAfterOf(absl::Status status, const absl::Status& source) {
  const std::optional<absl::Duration> after = RetryAfterOf(source);
  return after.has_value() ? WithRetryAfter(std::move(status), *after) : status;
}

}  // namespace longstream
