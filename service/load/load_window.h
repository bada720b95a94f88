// Computes a Load from measurements of the last seconds.
#ifndef LONGSTREAM_SERVICE_LOAD_LOAD_WINDOW_H_
#define LONGSTREAM_SERVICE_LOAD_LOAD_WINDOW_H_

#include <cstdint>
#include <deque>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/load/load.h"
#include "service/load/load_totals.h"

namespace longstream {

// The processor time and memory that the process uses, and that it may use.
struct ProcessUse {
  double cpu_seconds = 0;  // since its start
  double cpu_limit = 0;    // processors
  uint64_t memory_bytes = 0;
  uint64_t memory_limit = 0;
};

// Used by one thread at a time.
class LoadWindow {
 public:
  // `length`: of the window. `places`: in the batch of each model, at least 1.
  LoadWindow(absl::Duration length, uint32_t places) : length_(length), places_(places) {}

  // Adds a measurement and returns the load. Rates are 0 at the first one. Times only grow.
  Load Add(MonotonicTime now, const LoadTotals& totals, const ProcessUse& use);

 private:
  struct Sample {
    MonotonicTime time;
    double most_turns;
    double cpu_seconds;
    // These grow as the counters do, but do not fall when a model is unloaded.
    double queue_seconds, queued_turns, tokens, turns, failed_turns;
  };

  const absl::Duration length_;
  const uint32_t places_;
  LoadTotals last_;             // the last measurement
  std::deque<Sample> samples_;  // of the window, and one at or before its begin
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_LOAD_LOAD_WINDOW_H_
