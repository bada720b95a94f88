// Which sessions ended because their model was unloaded.
#ifndef LONGSTREAM_SERVICE_SESSIONS_ENDED_SESSIONS_H_
#define LONGSTREAM_SERVICE_SESSIONS_ENDED_SESSIONS_H_

#include <cstddef>
#include <deque>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/sessions/session_id.h"
#include "service/sessions/session_key.h"

namespace longstream {

// Remembers the latest sessions that lived in memory only, so that their clients learn why they are
// gone. Thread-safe.
class EndedSessions {
 public:
  static constexpr size_t kMost = 4096;

  void Add(const SessionKey& key, const std::string& model) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!models_.insert_or_assign(key, model).second) return;
    order_.push_back(key);
    if (order_.size() <= kMost) return;
    models_.erase(order_.front());
    order_.pop_front();
  }

  // Another session has the key from now on.
  void Forget(const SessionKey& key) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (models_.erase(key) > 0) std::erase(order_, key);
  }

  // The error for a session that is not found: says so if the session ended with its model.
  absl::Status Explain(const SessionKey& key) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = models_.find(key);
    if (found == models_.end()) return NoSession(key.id);
    return absl::NotFoundError(absl::StrCat("session_id: session ", key.id.ToString(),
                                            " ended when its model ", found->second,
                                            " was unloaded"));
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<SessionKey, std::string> models_ ABSL_GUARDED_BY(mutex_);
  std::deque<SessionKey> order_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_ENDED_SESSIONS_H_
