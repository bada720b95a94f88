// The changes of one session in the store, one after the other.
#ifndef LONGSTREAM_SERVICE_SERVING_LOG_SESSION_LOG_H_
#define LONGSTREAM_SERVICE_SERVING_LOG_SESSION_LOG_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/sessions/session_key.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/commit_queue.h"

namespace longstream {

// Knows the epoch and the version of the session, which every change names. So the next change is
// made only when the one before it has been answered; changes of other sessions share a transaction
// with it. Thread-safe. No function blocks.
class SessionLog : public std::enable_shared_from_this<SessionLog> {
 public:
  // `commits` must outlive the log and its changes.
  SessionLog(store::CommitQueue* commits, SessionKey key)
      : commits_(commits), key_(std::move(key)) {}

  const SessionKey& key() const { return key_; }
  // The session is in the store with this epoch and version. Before the first change.
  void SetVersion(int64_t epoch, int64_t version) ABSL_LOCKS_EXCLUDED(mutex_);

  // The epoch and the version that the last change left.
  store::Fence fence() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return {key_, now_.epoch, now_.version};
  }
  // Whether the session has this epoch and this version, as far as this log knows.
  bool IsAt(const store::Fence& fence) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return now_.epoch == fence.epoch && now_.version == fence.version;
  }
  // The version that the last change left.
  int64_t version() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return now_.version;
  }

  // Makes the change when all earlier ones have been answered. `make` may refuse it. `done` is
  // called once, on the store's thread or at once.
  using Make = std::function<absl::StatusOr<store::Change>(const store::Fence& fence)>;
  using Done = store::CommitQueue::Done;
  void Submit(Make make, Done done) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    Make make;
    Done done;
  };

  // Sends the front of waiting_, until there is nothing more to send.
  void Send() ABSL_LOCKS_EXCLUDED(mutex_);
  void Answer(absl::StatusOr<store::Applied> applied) ABSL_LOCKS_EXCLUDED(mutex_);

  store::CommitQueue* const commits_;
  const SessionKey key_;
  mutable absl::Mutex mutex_;
  store::Applied now_ ABSL_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // the front one is being made
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_LOG_SESSION_LOG_H_
