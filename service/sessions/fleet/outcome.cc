#include "service/sessions/fleet/outcome.h"

namespace longstream::fleet {

Outcome OutcomeOf(const absl::Status& status, TransactionKind kind) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kMade;
    case absl::StatusCode::kAborted:
      return Outcome::kFenced;
    case absl::StatusCode::kNotFound:
      // A change may name a turn that is not there. If the session is not there, the row says so.
      return kind == TransactionKind::kChange ? Outcome::kRefused : Outcome::kFenced;
    case absl::StatusCode::kAlreadyExists:
      return kind == TransactionKind::kStart ? Outcome::kTurnExists : Outcome::kRefused;
    case absl::StatusCode::kFailedPrecondition:
      return kind == TransactionKind::kCommit ? Outcome::kTurnExists : Outcome::kRefused;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss:
      return Outcome::kRefused;
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
