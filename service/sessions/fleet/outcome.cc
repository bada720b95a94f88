#include "service/sessions/fleet/outcome.h"

namespace longstream::fleet {

Outcome OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kMade;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kNotFound:
      return Outcome::kFenced;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return Outcome::kTurnExists;
    case absl::StatusCode::kPermissionDenied:
      return Outcome::kNotAllowed;
    case absl::StatusCode::kResourceExhausted:
      return Outcome::kFull;
    case absl::StatusCode::kUnavailable:
      return Outcome::kUnavailable;
    default:
      return Outcome::kUnknown;
  }
}

}  // namespace longstream::fleet
