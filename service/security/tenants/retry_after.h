// When a call that was refused may succeed, as a part of its error.
#ifndef LONGSTREAM_SERVICE_SECURITY_TENANTS_RETRY_AFTER_H_
#define LONGSTREAM_SERVICE_SECURITY_TENANTS_RETRY_AFTER_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace longstream {

// Returns the error with this time. InfiniteDuration: waiting does not help.
absl::Status WithRetryAfter(absl::Status status, absl::Duration after);

// The time in the error. Absent: the error has none.
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_TENANTS_RETRY_AFTER_H_
