// When a call that was refused may succeed, as a part of its error.
#ifndef LONGSTREAM_SERVICE_ERRORS_RETRY_AFTER_H_
#define LONGSTREAM_SERVICE_ERRORS_RETRY_AFTER_H_

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace longstream {

// Returns the error with this time. InfiniteDuration: waiting does not help.
absl::Status WithRetryAfter(absl::Status status, absl::Duration after);

// The same error. It stays until an operator does something: waiting does not help.
inline absl::Status UntilMended(absl::Status status) {
  return WithRetryAfter(std::move(status), absl::InfiniteDuration());
}

// The time in the error. Absent: the error has none. A client then gets a time if the error's code
// says that it passes (service/server/transport/grpc_status.h).
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

// Returns the error with the time that `source` has, if it has one.
absl::Status WithRetryAfterOf(absl::Status status, const absl::Status& source);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ERRORS_RETRY_AFTER_H_
