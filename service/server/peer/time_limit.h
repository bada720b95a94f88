// The time limit of what a call between replicas waits for.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_TIME_LIMIT_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_TIME_LIMIT_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"

namespace longstream {

// Used under the mutex of its call.
class TimeLimit {
 public:
  // `timers` outlives the object.
  explicit TimeLimit(Timers* timers) : timers_(timers) {}

  // A wait begins; the one before has ended. When it has taken this long, calls `over` with the
  // number of the wait, on the thread of the timers, without the mutex. `over` keeps the call
  // alive.
  void Set(absl::Duration most, std::function<void(uint64_t wait)> over) {
    Clear();
    timer_ = timers_->Set(MonotonicTime::Now() + most,
                          [over = std::move(over), wait = wait_] { over(wait); });
  }
  void Clear() {
    ++wait_;
    if (timer_ != 0) timers_->Cancel(std::exchange(timer_, 0));
  }
  // Whether this wait has not ended.
  bool Is(uint64_t wait) const { return wait == wait_; }

 private:
  Timers* const timers_;
  Timers::Id timer_ = 0;
  uint64_t wait_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_TIME_LIMIT_H_
