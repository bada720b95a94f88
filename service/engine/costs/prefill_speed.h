// An estimate of how fast a model reads prompts.
#ifndef LONGSTREAM_SERVICE_ENGINE_COSTS_PREFILL_SPEED_H_
#define LONGSTREAM_SERVICE_ENGINE_COSTS_PREFILL_SPEED_H_

#include <cstdint>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// The time per token of the fastest recent prefill. A deadline cannot be met if it is closer than
// this time multiplied by the tokens of the prompt. A refused turn gives no new measurement.
// Therefore the estimate is forgotten after kMaxAge unless a later prefill confirms it.
class PrefillSpeed {
 public:
  // The first prefills of a process are ignored: they are slower, because they load the weights
  // into memory and start threads.
  static constexpr int kWarmUpSamples = 2;
  static constexpr absl::Duration kMaxAge = absl::Seconds(10);

  // Learns from a step that only read prompts, `tokens` tokens in all. It took `time` and ended at
  // `now`. A `time` <= 0 is ignored.
  void Learn(uint64_t tokens, absl::Duration time, MonotonicTime now);

  // The least time that reading `tokens` tokens takes. Zero if it is not known.
  absl::Duration TimeFor(uint64_t tokens, MonotonicTime now) const;

 private:
  int warm_up_left_ = kWarmUpSamples;
  double seconds_per_token_ = 0.0;
  MonotonicTime learned_ = MonotonicTime::InfinitePast();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_COSTS_PREFILL_SPEED_H_
