// When free memory of the heap goes back to the system.
#ifndef LONGSTREAM_SERVICE_SERVING_HEAP_TRIM_H_
#define LONGSTREAM_SERVICE_SERVING_HEAP_TRIM_H_

#include <atomic>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// The allocator keeps what histories, messages and buffers have freed, unless it lies at the end of
// a heap. malloc_trim gives it back, but threads that allocate meanwhile may have to wait for some
// milliseconds. So it is called only after work that may have freed memory: soon if no turn runs or
// no session is left, else seldom. It is called twice, because a call notes its work a moment
// before the last of its memory is freed, such as gRPC's buffers of its request.
class HeapTrim {
 public:
  // A call has been served that may free memory. Thread-safe.
  void NoteWork() { trims_left_.store(2, std::memory_order_relaxed); }

  // Whether to call malloc_trim now. One thread asks this about once a second.
  bool IsDue(MonotonicTime now, bool has_turns, bool has_sessions) {
    if (trims_left_.load(std::memory_order_relaxed) == 0) return false;
    const absl::Duration period = has_turns ? kBusyPeriod : has_sessions ? kIdlePeriod : kNoPeriod;
    if (now - last_ < period) return false;
    // The turns that run now may free memory when they end.
    if (!has_turns) trims_left_.fetch_sub(1, std::memory_order_relaxed);
    last_ = now;
    return true;
  }

 private:
  static constexpr absl::Duration kBusyPeriod = absl::Minutes(1);
  static constexpr absl::Duration kIdlePeriod = absl::Seconds(5);
  static constexpr absl::Duration kNoPeriod = absl::ZeroDuration();

  std::atomic<int> trims_left_{0};
  MonotonicTime last_ = MonotonicTime::InfinitePast();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_HEAP_TRIM_H_
