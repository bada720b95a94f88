// Writes the caches of sessions to the store and reads them back, on threads of its own.
#ifndef LONGSTREAM_SERVICE_SERVING_CACHES_CACHE_KEEPER_H_
#define LONGSTREAM_SERVICE_SERVING_CACHES_CACHE_KEEPER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/host_memory/host_memory.h"
#include "service/metrics/session_metrics.h"
#include "service/serving/caches/kept_caches.h"
#include "service/serving/caches/save_queue.h"
#include "service/serving/caches/snapshot_io.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// A snapshot that has begun and must be written.
struct SaveJob {
  std::shared_ptr<KeptCaches> caches;
  store::SnapshotRow row;  // its keys are computed when it is written
  SavedCaches saved;
  HostCharge charge;  // for the memory of `saved`
};
// A snapshot that must be read.
struct FillJob {
  std::shared_ptr<KeptCaches> caches;
  store::SnapshotRow row;
  std::shared_ptr<CacheFill> fill;  // shared with the engine, which may take the import back
  StoredCaches::FillDone done;
};

// A snapshot never delays a turn, and a snapshot that fails fails no turn: the log is the promise.
// While turns run, the thread that writes works for an eighth of the time, because the streams need
// the processors. While turns wait for memory, the snapshots that have begun are given up, and no
// other begins. After an error of the disk nothing is written for a while.
//
// Several threads read, so that a slow read does not delay the turns of other sessions. A turn
// waits for its read for a limited time (RestoreLimit). If the disk hangs, each thread may be in a
// read for which no turn waits any more; then further reads fail at once, until one of them ends.
//
// Thread-safe. Only Stop blocks, and the destructor, which calls it.
class CacheKeeper {
 public:
  // `host_memory`: counts what the sessions hold. The others outlive the keeper's threads.
  // `metrics` may be nullptr. Throws std::system_error if the system gives no thread.
  CacheKeeper(std::shared_ptr<HostMemory> host_memory, store::SessionStore* store,
              store::CommitQueue* commits, SessionMetrics* metrics);
  ~CacheKeeper();
  CacheKeeper(const CacheKeeper&) = delete;
  CacheKeeper& operator=(const CacheKeeper&) = delete;

  store::SessionStore* store() const { return store_; }

  // Writes the snapshots that have begun, for at most 2 s, gives up the reads that have not
  // begun, and ends the threads. From then on nothing is saved or read. May be called again.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // For KeptCaches.
  bool BeginSave(const std::shared_ptr<KeptCaches>& caches) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndSave(const std::shared_ptr<KeptCaches>& caches) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets a session that waits be saved, if one may begin.
  void SaveWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the job. False: it does not, because the keeper has stopped.
  bool Add(SaveJob* job) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fill(FillJob job) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void WriteAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void Write(SaveJob job);
  // Computes the keys of the job's row, and finds out which segments are new.
  absl::StatusOr<NewSegments> Plan(SaveJob& job);
  // Returns the turns of the history whose snapshots are not needed when `added` is in the store.
  std::vector<store::TurnNumber> SnapshotsToDrop(const store::SnapshotRow& added);
  absl::StatusOr<std::shared_ptr<store::WrittenSegments>> WriteNew(SaveJob& job, uint64_t* bytes);
  void Commit(SaveJob job, std::shared_ptr<store::WrittenSegments> written, uint64_t bytes,
              MonotonicTime begin);
  // The job's snapshot is in the store, or is not.
  void Finish(const SaveJob& job, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // ABORTED: the keeper was stopped 2 s ago or more.
  absl::Status MayWrite() ABSL_LOCKS_EXCLUDED(mutex_);
  // No snapshot begins for this time.
  void Pause(absl::Duration time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `number`: of the thread that reads.
  void ReadAll(size_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  void Read(const FillJob& job);
  // UNAVAILABLE: no read can begin.
  absl::Status MayRead() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void CountRestore(const absl::Status& status) const;

  // The thread of the store may hold the last session, and with it the keeper, for a moment longer
  // than the service exists.
  const std::shared_ptr<HostMemory> host_memory_;
  store::SessionStore* const store_;
  store::CommitQueue* const commits_;
  SessionMetrics* const metrics_;
  absl::Mutex mutex_;
  SaveQueue<std::shared_ptr<KeptCaches>> queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<SaveJob> saves_ ABSL_GUARDED_BY(mutex_);
  std::deque<FillJob> fills_ ABSL_GUARDED_BY(mutex_);
  // The snapshot that each reading thread reads now. nullptr: the thread waits.
  std::vector<std::shared_ptr<CacheFill>> reading_ ABSL_GUARDED_BY(mutex_);
  MonotonicTime resume_at_ ABSL_GUARDED_BY(mutex_);  // while the queue is paused
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicTime give_up_at_ ABSL_GUARDED_BY(mutex_) = MonotonicTime::InfiniteFuture();
  std::thread writer_;  // the last members: they start when all others are constructed
  std::vector<std::thread> readers_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_CACHES_CACHE_KEEPER_H_
