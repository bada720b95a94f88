// When free memory of the heap and of caches goes back to the system.
#ifndef LONGSTREAM_SERVICE_SERVING_MEMORY_HEAP_TRIM_H_
#define LONGSTREAM_SERVICE_SERVING_MEMORY_HEAP_TRIM_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// The allocator keeps what histories, messages and buffers have freed, unless it lies at the end of
// a heap. malloc_trim gives it back, but threads that allocate meanwhile may have to wait for some
// milliseconds. So it is called only after work that may have freed memory: soon if no turn runs or
// no session is left, else seldom. It is called twice, because a call notes its work a moment
// before the last of its memory is freed, such as gRPC's buffers of its request. Not every call
// notes its work: gRPC itself ends calls with too large messages, and clients break off messages.
// So the memory of the process is measured too.
class HeapTrim {
 public:
  // Bytes of the process.
  struct Memory {
    uint64_t resident = 0;  // that it holds
    uint64_t free = 0;      // of the heap's blocks, whether the system has their pages or not
  };

  // A call has been served that may free memory. Thread-safe.
  void NoteWork() { trims_left_.store(2, std::memory_order_relaxed); }

  // Notes work if the process holds much more than after the last trim, or if much has become free
  // since. The functions below are called by one thread, about once a second.
  void Measure(const Memory& now) {
    if (now.resident > trimmed_.resident + kMuch || now.free > trimmed_.free + kMuch) NoteWork();
    // Memory that is used again and becomes free again counts again.
    trimmed_.free = std::min(trimmed_.free, now.free);
  }
  // Whether to ask the models now to give back memory that no cache uses
  // (Engine::ReturnIdleMemory).
  bool IsCacheDue(MonotonicTime now) {
    if (now - last_cache_ < kCachePeriod) return false;
    last_cache_ = now;
    return true;
  }
  // malloc_trim has been called.
  void SetTrimmed(const Memory& now) { trimmed_ = now; }

  // Whether to call malloc_trim now.
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
  static constexpr absl::Duration kCachePeriod = absl::Seconds(5);
  static constexpr absl::Duration kNoPeriod = absl::ZeroDuration();

  static constexpr uint64_t kMuch = uint64_t{8} << 20;

  std::atomic<int> trims_left_{0};
  Memory trimmed_;  // after the last trim
  MonotonicTime last_ = MonotonicTime::InfinitePast();
  MonotonicTime last_cache_ = MonotonicTime::InfinitePast();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_MEMORY_HEAP_TRIM_H_
