// Repeated calls that make a session, and calls that wait until its id is free.
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/session_manager.h"

namespace longstream {

bool SessionManager::AnswerRepeat(const SessionMaking& making, const Opened& opened) {
  if (!making.id.has_value()) return false;
  if (fleet_ != nullptr) {
    const absl::Status known = fleet_->RemoveIfStale({making.tenant, *making.id});
    if (!known.ok()) {
      opened(known);
      return true;
    }
  }
  const absl::StatusOr<ServedSession> served = FindServed({making.tenant, *making.id});
  if (!served.ok()) return AnswerStoredRepeat(making, opened);
  const Session& session = *served->session;
  // A closed session is about to leave the table. It may stay in the store.
  if (session.closed()) {
    return RunAfterMaking(session, making, opened) || AnswerStoredRepeat(making, opened);
  }
  if (session.origin() != making.origin) {
    opened(absl::AlreadyExistsError(
        absl::StrCat(making.id_field, ": ", making.id->ToString(), " is in use")));
    return true;
  }
  {
    absl::MutexLock lock(&mutex_);
    const auto waiting = making_.find(&session);
    if (waiting != making_.end()) {
      waiting->second.push_back(session.View().durable ? InTime(opened) : opened);
      return true;
    }
  }
  opened(Described(session));
  return true;
}

bool SessionManager::RunAfterMaking(const Session& session, const SessionMaking& making,
                                    const Opened& opened) {
  absl::MutexLock lock(&mutex_);
  const auto waiting = making_.find(&session);
  if (waiting == making_.end()) return false;
  waiting->second.emplace_back(
      [this, opened, key = session.key(), again = making.again](
          const absl::StatusOr<SessionView>& /*failed*/) { RunAgain(key, opened, again); });
  return true;
}

bool SessionManager::AnswerStoredRepeat(const SessionMaking& making, const Opened& opened) {
  if (options_.store == nullptr) return false;
  const SessionKey key{making.tenant, *making.id};
  absl::StatusOr<store::SessionRow> row = absl::NotFoundError("");
  {
    // The session is not closed meanwhile.
    const absl::StatusOr<std::shared_ptr<void>> alone = alone_.Wait(key);
    if (!alone.ok()) {
      opened(alone.status());
      return true;
    }
    if (RunAfterClose(making, opened)) return true;
    row = options_.store->Session(key);
  }
  if (absl::IsNotFound(row.status())) return false;
  if (!row.ok()) {
    opened(row.status());
    return true;
  }
  const absl::StatusOr<LoggedProperties> properties = DecodeProperties(row->properties);
  if (!properties.ok()) {
    opened(properties.status());
  } else if (properties->origin != making.origin) {
    opened(absl::AlreadyExistsError(
        absl::StrCat(making.id_field, ": ", making.id->ToString(), " is in use")));
  } else {
    opened(ViewOf(*row));
  }
  return true;
}

bool SessionManager::RunAfterClose(const SessionMaking& making, const Opened& opened) {
  constexpr size_t kMostWaiting = 64;  // on a disk that hangs, callers may come again and again
  const SessionKey key{making.tenant, *making.id};
  {
    absl::MutexLock lock(&mutex_);
    const auto found = closing_.find(key);
    if (found == closing_.end()) return false;
    if (found->second.waiting.size() < kMostWaiting) {
      found->second.waiting.emplace_back(
          [this, key, opened, again = making.again] { RunAgain(key, opened, again); });
      return true;
    }
  }
  opened(absl::UnavailableError(absl::StrCat(making.id_field, ": session ", key.id.ToString(),
                                             " is being closed; send the request again")));
  return true;
}

void SessionManager::RunAgain(const SessionKey& key, const Opened& opened,
                              const std::function<void()>& again) {
  bool ends = false;
  {
    absl::MutexLock lock(&mutex_);
    ends = draining_ || stopping_;
  }
  // When the threads that read the store have ended, the call would read it on this thread.
  if (ends) return opened(absl::UnavailableError("the server is draining"));
  RunRead({key.tenant, key.id}, opened, again);
}

}  // namespace longstream
