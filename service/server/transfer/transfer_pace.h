// The pace at which sessions are exported and imported beside turns.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSFER_TRANSFER_PACE_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSFER_TRANSFER_PACE_H_

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"

namespace longstream {

// While turns run, a transfer works for one part of the time and pauses for kPauses parts. So it
// takes at most 1 / (1 + kPauses) of a processor and of the memory's bandwidth, on any machine. If
// no turn runs, it does not pause. Used by one thread at a time.
class TransferPace {
 public:
  // `timers` must outlive the transfer.
  explicit TransferPace(Timers* timers) : timers_(timers) {}

  // The transfer of a piece begins.
  void Begin() { begin_ = MonotonicTime::Now(); }

  // The piece was transferred. Calls `next` after the pause, on the thread of the timers, or at
  // once.
  void End(bool is_busy, std::function<void()> next) {
    if (!is_busy) return next();
    // A slow client makes its own pauses.
    const absl::Duration work = std::min(MonotonicTime::Now() - begin_, kMostWork);
    timers_->Set(MonotonicTime::Now() + kPauses * work, std::move(next));
  }

 private:
  static constexpr int kPauses = 15;
  static constexpr absl::Duration kMostWork = absl::Milliseconds(2);

  Timers* const timers_;
  MonotonicTime begin_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSFER_TRANSFER_PACE_H_
