// The answers of the machine as statuses that say what the matter is.
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/fleet/driver_core.h"
#include "service/fleet/session_owner.h"

namespace longstream::fleet {

// Looks at the event that is handled now.
std::string DriverCore::WhyNotNow() const {
  if (machine_.exited() || draining_) return "this server is shutting down";
  if (!lease_valid_) return "this server has no lease in the fleet now";
  if (event_ == nullptr) return "the session is being moved";
  if (std::holds_alternative<RowRead>(*event_)) {
    const auto& read = std::get<RowRead>(*event_);
    if (!read.row.has_value()) {
      return absl::StrCat("the database cannot be read: ", store_error_.message());
    }
    if (!read.row->owner_lives && !read.row->claims_allowed) {
      return "the database has started anew, and sessions can be claimed only after "
             "fleet.lease_ttl";
    }
    return absl::StrCat("replica ", read.row->owner, " owns the session");
  }
  if (std::holds_alternative<Transacted>(*event_)) {
    return absl::StrCat("the database has not made the change: ", store_error_.message());
  }
  if (std::holds_alternative<TimerFired>(*event_) && before_.phase == Phase::kFetching) {
    return absl::StrCat("replica ", before_.peer, ", which owns the session, does not answer");
  }
  if (std::holds_alternative<MessageArrives>(*event_)) {
    if (refused_.peer == before_.peer && refused_.request == before_.request) {
      return absl::StrCat("replica ", before_.peer, ", which owns the session, refuses the calls ",
                          "of this one: ", refused_.why.ToString());
    }
    return absl::StrCat("replica ", before_.peer,
                        " has got the session a moment ago, or is giving it to another replica");
  }
  if (std::holds_alternative<RelayBroken>(*event_)) {
    return "the replica where the turn runs does not answer";
  }
  if (std::holds_alternative<Withdrawn>(*event_)) {
    return "the call that had begun the turn was refused";
  }
  return "the session is being moved or changed";
}

absl::Status DriverCore::StatusOf(fleet::Answer answer, const SessionKey& session,
                                  const ReplicaName& owner) const {
  const std::string name = absl::StrCat("session ", session.id.ToString(), ": ");
  switch (answer) {
    case fleet::Answer::kCommitted:
    case fleet::Answer::kReplay:
    case fleet::Answer::kClosed:
      return absl::OkStatus();
    case fleet::Answer::kMoved:
      return absl::AbortedError(
          absl::StrCat(name, "it has moved to another replica; send the request again"));
    case fleet::Answer::kBusy: {
      absl::Status busy =
          absl::AbortedError(absl::StrCat(name, "another turn or change of it is running"));
      const bool says_owner = event_ != nullptr && before_.phase == Phase::kFetching &&
                              std::holds_alternative<MessageArrives>(*event_);
      const auto replica = says_owner ? replicas_.find(before_.peer) : replicas_.end();
      if (replica == replicas_.end()) return busy;
      return WithOwner(std::move(busy), {replica->first, replica->second.client_address});
    }
    case fleet::Answer::kAttached:
      return absl::AbortedError(absl::StrCat(name, "another call has attached to the turn"));
    case fleet::Answer::kNotNow:
      // Tries again would not help, until the row is restored.
      if (absl::IsDataLoss(store_error_)) return store_error_;
      return absl::UnavailableError(absl::StrCat(name, WhyNotNow()));
    case fleet::Answer::kCommitWaits:
      return absl::UnavailableError(absl::StrCat(
          name, "the store has not answered the commit of the turn yet; send the request again"));
    case fleet::Answer::kFull:
      return absl::ResourceExhaustedError(absl::StrCat(name, store_error_.message()));
    case fleet::Answer::kRefused:
      if (!store_error_.ok()) return store_error_;
      return absl::InternalError(absl::StrCat(name, "the store has refused the change"));
    case fleet::Answer::kNotFound:
      return NoSession(session.id);
    case fleet::Answer::kAbandoned:
      return absl::FailedPreconditionError(absl::StrCat(
          name,
          "the turn was abandoned, or the session has gone on since it started; send it as "
          "a new turn"));
    case fleet::Answer::kElsewhere: {
      const auto replica = replicas_.find(owner);
      if (replica == replicas_.end()) {
        return absl::UnavailableError(
            absl::StrCat(name, "replica ", owner, " owns it, and its address is not known yet"));
      }
      return WithOwner(absl::FailedPreconditionError(absl::StrCat(
                           name, "it is on the replica at ", replica->second.client_address,
                           "; send the request there (fleet.foreign: redirect)")),
                       {owner, replica->second.client_address});
    }
    case fleet::Answer::kFailed:
      return absl::InternalError(absl::StrCat(name, "the turn has failed"));
    case fleet::Answer::kCancelled:
      return absl::CancelledError(absl::StrCat(name, "it was closed"));
  }
  return absl::InternalError(absl::StrCat(name, "unexpected answer"));
}

}  // namespace longstream::fleet
