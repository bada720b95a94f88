// An estimate of how fast a model reads prompts.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_PREFILL_SPEED_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_PREFILL_SPEED_H_

#include <cstdint>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// The time per token of the quickest recent prefill. A deadline cannot be met if it is closer than
// this time for every token of the prompt. A refused turn gives no new measurement, so the estimate
// is forgotten unless a later prefill confirms it.
class PrefillSpeed {
 public:
  // The first prefills of a process fault in weights and wake threads; they are ignored.
  static constexpr int kWarmUpSamples = 2;
  static constexpr absl::Duration kMaxAge = absl::Seconds(10);

  // A step that read `tokens` of prompts, and nothing else, took `time` and ended at `now`. A
  // `time` <= 0 is ignored.
  void Learn(uint64_t tokens, absl::Duration time, MonotonicTime now);

  // The least time that reading `tokens` takes; zero if nothing is known.
  absl::Duration TimeFor(uint64_t tokens, MonotonicTime now) const;

 private:
  int warm_up_left_ = kWarmUpSamples;
  double seconds_per_token_ = 0.0;
  MonotonicTime learned_ = MonotonicTime::InfinitePast();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_PREFILL_SPEED_H_
