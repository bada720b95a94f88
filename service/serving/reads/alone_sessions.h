// Calls that must be the only one of their kind for a session.
#ifndef LONGSTREAM_SERVICE_SERVING_READS_ALONE_SESSIONS_H_
#define LONGSTREAM_SERVICE_SERVING_READS_ALONE_SESSIONS_H_

#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/session_key.h"

namespace longstream {

// One call at a time restores a session, closes it while it is only in the store, or lets it
// expire. ReadQueue lets calls of one session wait without a thread, so this is for calls that come
// another way, and for a call that has left its thread: it waits for an engine, which may hang.
// Thread-safe. Must outlive its places.
class AloneSessions {
 public:
  // `patience`: no thread waits for a place that another call has had for so long.
  explicit AloneSessions(absl::Duration patience) : patience_(patience) {}
  AloneSessions(const AloneSessions&) = delete;
  AloneSessions& operator=(const AloneSessions&) = delete;

  // The place of a call, which it has while the object exists. Blocks until the place is free.
  // UNAVAILABLE: another call has it for too long.
  absl::StatusOr<std::shared_ptr<void>> Wait(const SessionKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same without waiting. nullptr: another call has the place.
  std::shared_ptr<void> Try(const SessionKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::shared_ptr<void> Take(const SessionKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration patience_;
  absl::Mutex mutex_;
  std::map<SessionKey, MonotonicTime> since_ ABSL_GUARDED_BY(mutex_);  // of the places in use
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_READS_ALONE_SESSIONS_H_
