// Calls functions at moments of the steady clock.
#ifndef LONGSTREAM_SERVICE_CLOCK_TIMERS_H_
#define LONGSTREAM_SERVICE_CLOCK_TIMERS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "service/clock/monotonic_time.h"

namespace longstream {

// A thread of its own calls the functions, one after the other. They must not block, and they may
// set and cancel timers. Thread-safe; no function blocks but the destructor. Unlike gRPC's alarms,
// these serve the rooms without gRPC too, and follow the steady clock.
class Timers {
 public:
  // Names a timer; never used again.
  using Id = uint64_t;

  // Throws std::system_error if the system gives no thread.
  Timers();
  // Waits for the function that is being called. The others are destroyed without a call.
  ~Timers();
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  // Calls `call` once, at `time` or soon after.
  Id Set(MonotonicTime time, std::function<void()> call);
  // Takes the function back and destroys it, unless its call has begun.
  void Cancel(Id timer);
  // Calls the functions that have a later time at `time`.
  void CallBy(MonotonicTime time);

 private:
  struct Timer {
    MonotonicTime time;
    std::function<void()> call;
  };

  void Run();

  std::mutex mutex_;  // guards the members below
  // absl::CondVar waits by the wall clock, which may be set back.
  std::condition_variable changed_;
  std::map<Id, Timer> timers_;
  std::set<std::pair<MonotonicTime, Id>> order_;
  Id last_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // last, so that it starts after the other members
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CLOCK_TIMERS_H_
