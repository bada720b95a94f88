// Errors that get another message on their way.
#ifndef LONGSTREAM_SERVICE_ERRORS_WITH_MESSAGE_H_
#define LONGSTREAM_SERVICE_ERRORS_WITH_MESSAGE_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace longstream {

// The status with another message. Keeps its payloads, such as the time after which the client may
// try again (RetryAfterOf).
inline absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status named(status.code(), message);
  status.ForEachPayload([&named](absl::string_view url, const absl::Cord& payload) {
    named.SetPayload(url, payload);
  });
  return named;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ERRORS_WITH_MESSAGE_H_
