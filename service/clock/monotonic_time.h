// Moments of the steady clock, which measures durations.
#ifndef LONGSTREAM_SERVICE_CLOCK_MONOTONIC_TIME_H_
#define LONGSTREAM_SERVICE_CLOCK_MONOTONIC_TIME_H_

#include <chrono>
#include <functional>

#include "absl/time/time.h"

namespace longstream {

// A moment of the steady clock, which only moves forward. Use it for durations, idle times and
// deadlines. absl::Time is calendar time, for people: an operator or NTP may set it back or ahead
// while the server runs, and after a pause of a virtual machine it may jump by hours.
//
// Moments of one process can be compared and subtracted. A moment means nothing to another process.
class MonotonicTime {
 public:
  // The zero of the clock: some moment before the process began.
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

  absl::Duration since_;  // the time since the zero of the clock
};

// Returns the present moment: MonotonicTime::Now, or the time of a test.
using MonotonicClock = std::function<MonotonicTime()>;

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CLOCK_MONOTONIC_TIME_H_
