// Whether any engine of the process has turns of clients to run.
#ifndef LONGSTREAM_SERVICE_ENGINE_LIVE_WORK_H_
#define LONGSTREAM_SERVICE_ENGINE_LIVE_WORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// The engines of a process share one object, because they share its processors. Work in the
// background begins when no part of live work exists. Make it with std::make_shared. Thread-safe.
class LiveWork : public std::enable_shared_from_this<LiveWork> {
 public:
  // While an object of this type exists, there is live work. Its destructor may call listeners.
  class [[nodiscard]] Part {
   public:
    Part() = default;
    explicit Part(std::shared_ptr<LiveWork> of);
    Part(Part&& other) noexcept = default;
    Part& operator=(Part&& other) noexcept;
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() { End(); }

    explicit operator bool() const { return of_ != nullptr; }
    void End();

   private:
    std::shared_ptr<LiveWork> of_;  // nullptr: there is none
  };
  Part Begin() { return Part(shared_from_this()); }
  // How many parts have begun so far.
  uint64_t num_begun() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return begun_;
  }

  // While an object of this type exists, turns in the background wait, because an engine measures
  // its model. Its destructor may call listeners.
  class [[nodiscard]] Hold {
   public:
    explicit Hold(std::shared_ptr<LiveWork> of);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

   private:
    const std::shared_ptr<LiveWork> of_;
  };

  // Since when there has been none: InfiniteFuture while there is some.
  MonotonicTime QuietSince() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return parts_ == 0 ? quiet_since_ : MonotonicTime::InfiniteFuture();
  }

  // As QuietSince for turns in the background: InfiniteFuture while a Hold exists, too.
  MonotonicTime BackgroundQuietSince() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return parts_ == 0 && holds_ == 0 ? quiet_since_ : MonotonicTime::InfiniteFuture();
  }

  // While an object of this type exists, `ended` is called each time that the last part or the last
  // hold has ended, on the thread that has ended it. It must not block, and must not use this
  // object.
  class [[nodiscard]] Listener {
   public:
    Listener(std::shared_ptr<LiveWork> to, std::function<void()> ended);
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    // Waits for a call that runs.
    ~Listener();

   private:
    const std::shared_ptr<LiveWork> to_;
    uint64_t number_ = 0;
  };

 private:
  mutable absl::Mutex mutex_;
  uint64_t parts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t holds_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  MonotonicTime quiet_since_ ABSL_GUARDED_BY(mutex_) = MonotonicTime::InfinitePast();
  uint64_t last_listener_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::function<void()>> listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_LIVE_WORK_H_
