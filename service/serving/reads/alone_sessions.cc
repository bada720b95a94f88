// Gives and takes back the places.
#include "service/serving/reads/alone_sessions.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream {

absl::StatusOr<std::shared_ptr<void>> AloneSessions::Wait(const SessionKey& key) {
  absl::MutexLock lock(&mutex_);
  const auto is_free = [this, &key]()
                           ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !since_.contains(key); };
  const MonotonicTime begin = MonotonicTime::Now();
  for (auto taken = since_.find(key); taken != since_.end(); taken = since_.find(key)) {
    const MonotonicTime since = taken->second;
    const absl::Duration left = std::min(since, begin) + patience_ - MonotonicTime::Now();
    if (mutex_.AwaitWithTimeout(absl::Condition(&is_free), left)) break;
    // Meanwhile yet another call may have taken the place.
    taken = since_.find(key);
    const bool is_other = taken != since_.end() && taken->second != since;
    if (!is_other || begin + patience_ <= MonotonicTime::Now()) {
      return absl::UnavailableError(
          absl::StrCat("session ", key.id.ToString(),
                       ": another call still restores or reads it; send the request again"));
    }
  }
  return Take(key);
}

std::shared_ptr<void> AloneSessions::Try(const SessionKey& key) {
  absl::MutexLock lock(&mutex_);
  return since_.contains(key) ? nullptr : Take(key);
}

std::shared_ptr<void> AloneSessions::Take(const SessionKey& key) {
  since_[key] = MonotonicTime::Now();
  // A pointer that is not nullptr, for callers of Try.
  return std::shared_ptr<void>(&since_, [this, key](void*) {
    absl::MutexLock lock(&mutex_);
    since_.erase(key);
  });
}

}  // namespace longstream
