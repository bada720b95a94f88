#include "gateway/turns/run_together.h"

#include <exception>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longstream::gateway {
namespace {

// The calls of one RunTogether. Thread-safe.
class Calls {
 public:
  explicit Calls(size_t count) : count_(count) {}

  // A thread joins, and leaves.
  void Join() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++threads_;
  }
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --threads_;
  }

  // The next call for this thread. Absent: there is none.
  std::optional<size_t> Next() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (error_ != nullptr || next_ == count_) return std::nullopt;
    return next_++;
  }

  // Returns whether this is the first error.
  bool Fail(std::exception_ptr error) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (error_ != nullptr) return false;
    error_ = std::move(error);
    return true;
  }

  // Waits until all threads have left. Throws the error.
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Calls::AllLeft));
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  bool AllLeft() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return threads_ == 0; }

  const size_t count_;
  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;  // besides the caller's
  std::exception_ptr error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void RunTogether(size_t count, const StartThread& start, const std::function<void(size_t i)>& run,
                 const std::function<void()>& stop) {
  // A thread still touches the lock when this function has returned.
  const auto calls = std::make_shared<Calls>(count);
  const auto work = [&calls, &run, &stop] {
    while (const std::optional<size_t> i = calls->Next()) {
      try {
        run(*i);
      } catch (...) {
        if (calls->Fail(std::current_exception())) stop();
      }
    }
  };
  for (size_t i = 1; i < count; ++i) {
    calls->Join();
    const bool started = start([calls, &work] {
      work();
      calls->Leave();
    });
    if (started) continue;
    calls->Leave();
    break;
  }
  work();
  calls->End();
}

}  // namespace longstream::gateway
