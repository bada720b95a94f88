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
  while (true) {
    const auto taken = since_.find(key);
    if (taken == since_.end()) return Take(key);
    // Meanwhile yet another call may take the place.
    const absl::Duration left = std::min(taken->second, begin) + patience_ - MonotonicTime::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          absl::StrCat("session ", key.id.ToString(),
                       ": another call still restores or reads it; send the request again"));
    }
    mutex_.AwaitWithTimeout(absl::Condition(&is_free), left);
  }
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
