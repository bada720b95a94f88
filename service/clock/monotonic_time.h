// Moments of the steady clock, to measure durations by.
#ifndef LONGSTREAM_SERVICE_CLOCK_MONOTONIC_TIME_H_
#define LONGSTREAM_SERVICE_CLOCK_MONOTONIC_TIME_H_

#include <chrono>

#include "absl/time/time.h"

namespace longstream {

// A moment of the steady clock, which nobody sets. Use it for durations, idle times and deadlines.
// absl::Time is the calendar's time, for people: an operator or NTP may set it back or ahead while
// the server runs, and after a pause of a virtual machine it is hours later.
//
// Two moments of one process compare and subtract; a moment means nothing to another process.
class MonotonicTime {
 public:
  // The clock's zero, which is some time before the process began.
  constexpr MonotonicTime() = default;

  static MonotonicTime Now() {
    return MonotonicTime(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
  }
  static constexpr MonotonicTime InfiniteFuture() {
    return MonotonicTime(absl::InfiniteDuration());
  }
  static constexpr MonotonicTime InfinitePast() { return MonotonicTime(-absl::InfiniteDuration()); }

  friend absl::Duration operator-(MonotonicTime a, MonotonicTime b) { return a.since_ - b.since_; }
  friend MonotonicTime operator+(MonotonicTime time, absl::Duration duration) {
    return MonotonicTime(time.since_ + duration);
  }
  friend MonotonicTime operator-(MonotonicTime time, absl::Duration duration) {
    return MonotonicTime(time.since_ - duration);
  }

  friend bool operator==(MonotonicTime a, MonotonicTime b) { return a.since_ == b.since_; }
  friend bool operator!=(MonotonicTime a, MonotonicTime b) { return a.since_ != b.since_; }
  friend bool operator<(MonotonicTime a, MonotonicTime b) { return a.since_ < b.since_; }
  friend bool operator>(MonotonicTime a, MonotonicTime b) { return a.since_ > b.since_; }
  friend bool operator<=(MonotonicTime a, MonotonicTime b) { return a.since_ <= b.since_; }
  friend bool operator>=(MonotonicTime a, MonotonicTime b) { return a.since_ >= b.since_; }

 private:
  constexpr explicit MonotonicTime(absl::Duration since) : since_(since) {}

  absl::Duration since_;  // the clock's zero
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CLOCK_MONOTONIC_TIME_H_
