#include "gateway/turns/run_together.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

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

  // A call that a thread makes.
  struct Call {
    size_t index = 0;
    size_t changes = 0;  // as changes_ when it began
  };
  // The first call of a thread, and the next one when a call has ended. Absent: there is none.
  std::optional<Call> First() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return Take();
  }
  std::optional<Call> Next() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --running_;
    ++changes_;
    refused_ = 0;
    return Take();
  }

  // The next step of a thread whose call had no room.
  enum class Then { kLeave, kGoOn, kFail };
  Then PutBack(const Call& call) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --running_;
    if (running_ > 0) {  // the others make the call again
      ++changes_;
      again_.push_back(call.index);
      return Then::kLeave;
    }
    // If another call was running meanwhile, this one may have room now. If not, there may be room
    // for another call, which has its session already.
    const bool was_alone = call.changes == changes_;
    if (was_alone && ++refused_ > again_.size() + count_ - next_) {
      ++running_;
      return Then::kFail;
    }
    again_.push_back(call.index);
    return Then::kGoOn;
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
    std::exception_ptr error;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Calls::AllLeft));
      error = std::exchange(error_, nullptr);
    }
    // The error ends on this thread: others may still hold this object.
    if (error != nullptr) std::rethrow_exception(std::move(error));
  }

 private:
  bool AllLeft() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return threads_ == 0; }

  std::optional<Call> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (error_ != nullptr || (again_.empty() && next_ == count_)) return std::nullopt;
    ++running_;
    if (next_ < count_) return Call{next_++, changes_};
    const Call call{again_.front(), changes_};
    again_.pop_front();
    return call;
  }

  const size_t count_;
  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<size_t> again_ ABSL_GUARDED_BY(mutex_);  // there was no room for these
  // Calls that ran alone without room, since one has ended.
  size_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // calls that have ended or left to others
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;  // calls
  size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;  // besides the caller's
  std::exception_ptr error_ ABSL_GUARDED_BY(mutex_);
};

// The work of one thread.
void MakeCalls(Calls& calls, const std::function<void(size_t i)>& run,
               const std::function<void()>& stop) {
  std::optional<Calls::Call> call = calls.First();
  while (call.has_value()) {
    std::exception_ptr error;
    try {
      run(call->index);
    } catch (const NoRoom& no_room) {
      const Calls::Then then = calls.PutBack(*call);
      if (then == Calls::Then::kLeave) return;
      if (then == Calls::Then::kGoOn) {
        call = calls.First();
        continue;
      }
      error = no_room.error;
    } catch (...) {
      error = std::current_exception();
    }
    if (error != nullptr && calls.Fail(error)) stop();
    call = calls.Next();
  }
}

// False: there is no thread. An error of the system is none of the calls.
bool Begins(const StartThread& start, std::function<void()> work) {
  try {
    return start(std::move(work));
  } catch (...) {
    return false;
  }
}

}  // namespace

void RunTogether(size_t count, const StartThread& start, const std::function<void(size_t i)>& run,
                 const std::function<void()>& stop) {
  // A thread still touches the lock when this function has returned.
  const auto calls = std::make_shared<Calls>(count);
  for (size_t i = 1; i < count; ++i) {
    calls->Join();
    const bool begins = Begins(start, [calls, &run, &stop] {
      MakeCalls(*calls, run, stop);
      calls->Leave();
    });
    if (begins) continue;
    calls->Leave();
    break;
  }
  MakeCalls(*calls, run, stop);
  calls->End();
}

}  // namespace longstream::gateway
