// Counts the calls of a service that are in progress, so that a shutdown can wait for them and
// not for calls of other services.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_CALL_COUNT_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_CALL_COUNT_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// Thread-safe. Must outlive its calls.
class CallCount {
 public:
  // Counts one call while the object exists. It is a member of the call's reactor, which exists
  // until gRPC is done with the call.
  class Call {
   public:
    explicit Call(CallCount* count) : count_(count) { count_->Add(1); }
    ~Call() { count_->Add(-1); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallCount* const count_;
  };

  // Blocks until no call is in progress, at most until `deadline`.
  void WaitUntilNone(MonotonicTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(
                                +[](int* calls) { return *calls == 0; }, &calls_),
                            deadline - MonotonicTime::Now());
  }

 private:
  void Add(int calls) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    calls_ += calls;
  }

  absl::Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_CALL_COUNT_H_
