// Group commit: changes that arrive at about the same time share one transaction.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_COMMIT_QUEUE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_COMMIT_QUEUE_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/session_store.h"

namespace longstream::store {

// A thread of its own applies the changes. While one transaction becomes durable, the next changes
// gather. So a disk that takes 5 ms for a transaction carries thousands of changes a second, and a
// change waits for at most two transactions.
//
// Thread-safe. Submit never blocks.
class CommitQueue {
 public:
  struct Options {
    // Changes that wait or are being applied, in bytes of their rows. A change beyond it is
    // refused, and notes beyond a quarter of it, so that they take the place of no turn.
    size_t max_waiting_bytes = size_t{256} << 20;
    // Called on the queue's thread after each transaction, before the callbacks of its changes.
    std::function<void(absl::Span<const absl::StatusOr<Applied>> results, absl::Duration duration)>
        on_commit;
  };

  // `store` must outlive the queue.
  CommitQueue(SessionStore* store, Options options);
  // Waits until all changes have been applied.
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // Called once, on the queue's thread, with what SessionStore::Apply returned. It must not block.
  using Done = std::function<void(absl::StatusOr<Applied>)>;

  // Changes are applied in the order in which they are submitted. RESOURCE_EXHAUSTED: too many
  // bytes wait; `done` is then called at once, on this thread.
  void Submit(Change change, Done done) ABSL_LOCKS_EXCLUDED(mutex_);

  // How long the store has been busy with the transaction that it makes now. 0: it makes none.
  absl::Duration BusyFor() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    Change change;
    Done done;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Apply(std::vector<Waiting> batch);

  SessionStore* const store_;
  const Options options_;
  mutable absl::Mutex mutex_;
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<MonotonicTime> busy_since_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last, so that it starts after the other members
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_COMMIT_QUEUE_H_
