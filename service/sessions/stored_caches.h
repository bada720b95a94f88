// The interface of the caches that a session has in the store.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORED_CACHES_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORED_CACHES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/models/backend_model.h"
#include "service/sessions/feed.h"

namespace longstream {

struct SessionState;

// Stands before the id of the session whose caches a file has brought. Nobody vouches for a file,
// so its caches never stand for what this server has computed, nor for those of another session.
inline constexpr std::string_view kFromFile = "file ";

// A snapshot of a session's caches that is in the store.
struct StoredPlace {
  int64_t turn = 0;  // its number in the store
  uint64_t position = 0;
  std::string cache{};  // its name in the store
  // The kernels that computed the caches, if others than the present model's; or the file that
  // brought the caches. Later bits then agree with an undisturbed run to rounding.
  std::string other_kernels{};
};

// A snapshot that has begun, and what its segments are made of.
struct SavedCaches {
  Snapshot snapshot;
  std::vector<int32_t> tokens;      // that the caches have read
  Feed feed;                        // of these tokens
  std::vector<uint64_t> span_ends;  // of the spans before that of the snapshot; they are stored
  std::string other_kernels;        // as StoredPlace's
  uint64_t history_size = 0;        // tokens of the session
};

// A snapshot that is being read into an import. One thread reads; the engine may take the import
// back at any time, and the reader then stops at its next piece. Thread-safe.
class CacheFill {
 public:
  explicit CacheFill(SnapshotImport import) : import_(std::move(import)) {}
  // REQUIRES: the import was taken.
  ~CacheFill() = default;
  CacheFill(const CacheFill&) = delete;
  CacheFill& operator=(const CacheFill&) = delete;

  // For the reader. As SnapshotImport::Write. CANCELLED: the import was taken.
  absl::Status Write(std::span<const std::byte> bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return taken_ ? absl::CancelledError("nobody waits for the snapshot") : import_.Write(bytes);
  }
  bool taken() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }
  // The reader writes nothing more. False: the import was taken before.
  bool End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    return !taken_;
  }
  // `given_up` is called if the import is taken before the reader ends. Set it before the reader
  // begins.
  void SetGivenUp(std::function<void(const absl::Status& why)> given_up) {
    given_up_ = std::move(given_up);
  }

  // For the engine. Waits at most until one piece is written. `why`: OK: the reader has ended;
  // otherwise why nobody waits for it any longer.
  SnapshotImport Take(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_) {
    SnapshotImport import;
    {
      absl::MutexLock lock(&mutex_);
      taken_ = true;
      import = std::move(import_);
      if (ended_) return import;
    }
    if (!why.ok() && given_up_) given_up_(why);
    return import;
  }

 private:
  mutable absl::Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  SnapshotImport import_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const absl::Status& why)> given_up_;
};

// The engine calls the functions, except Reload and Follow, on its thread, and none of them
// blocks: other threads read and write the store.
class StoredCaches {
 public:
  StoredCaches() = default;
  virtual ~StoredCaches() = default;
  StoredCaches(const StoredCaches&) = delete;
  StoredCaches& operator=(const StoredCaches&) = delete;

  // The snapshots whose caches have read the first tokens of `state` as its feed says, their
  // positions ascending. `unchanged`: so many of the tokens, and how they were read, are as in the
  // last call, so they need not be hashed again.
  virtual std::vector<StoredPlace> Find(const SessionState& state, uint64_t unchanged) = 0;
  // Looks which snapshots the history up to this turn of the store has. Blocks; not for the engine
  // thread.
  virtual void Reload(int64_t turn) = 0;
  // The session begins as a fork of another session at this turn of the store: the other one's
  // snapshot of the turn is good for it, too, when it has been written. Call it before Reload, on
  // any thread. `source`: made by the same session manager; also below.
  virtual void Follow(StoredCaches& source, int64_t turn) = 0;
  // The session has got the history of another one, so it need not be hashed again.
  virtual void CopyKeys(const StoredCaches& source) = 0;
  // The position of the latest snapshot, whichever tokens it has read; 0: there is none.
  virtual uint64_t LastPosition() const = 0;

  // How a snapshot was read.
  struct Filled {
    absl::Status status;
    uint64_t bytes = 0;
    absl::Duration time;
    std::vector<uint64_t> span_ends{};  // of the spans that were read
  };
  // Reads the snapshot into the import of `fill`, then calls `done`, on another thread or at once.
  // `done` may not be called if the import is taken meanwhile. After DATA_LOSS or NOT_FOUND, Find
  // does not return this snapshot any more.
  using FillDone = std::function<void(const Filled& filled)>;
  virtual void Fill(const StoredPlace& place, std::shared_ptr<CacheFill> fill, FillDone done) = 0;
  // The snapshot was read, but the backend could make no caches of it: Find does not return it any
  // more.
  virtual void Reject(const StoredPlace& place) = 0;

  // Whether the caches should be saved now. If not, and there is reason to save them later,
  // Engine::SaveCaches is called then.
  virtual bool BeginSave() = 0;
  // Writes the snapshot to the store, if the session is at the end of a turn, and gives it back to
  // the engine. REQUIRES: BeginSave has returned true.
  virtual void Save(SavedCaches saved) = 0;
  // Nothing is saved. REQUIRES: BeginSave has returned true.
  virtual void CancelSave() = 0;
  // Engine::SaveCaches has found nothing to save.
  virtual void SkipSave() = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORED_CACHES_H_
