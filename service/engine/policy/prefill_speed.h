// How fast a model reads prompts, as far as that is known.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_PREFILL_SPEED_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_PREFILL_SPEED_H_

#include <cstdint>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"

namespace longstream {

// The time that the quickest of the late prefills took per token. A deadline that is closer than
// that for every token of a prompt cannot be met. A turn that is refused teaches nothing, so the
// estimate errs on the side of knowing nothing: it is forgotten when no later prefill confirms it.
class PrefillSpeed {
 public:
  // The first prefills of a process fault in weights and wake threads; they tell nothing.
  static constexpr int kWarmUpSamples = 2;
  static constexpr absl::Duration kMaxAge = absl::Seconds(10);

  // A step that read `tokens` of prompts, and nothing else, took `time` and ended at `now`. One of
  // no time or less tells nothing.
  void Learn(uint64_t tokens, absl::Duration time, MonotonicTime now);

  // What reading `tokens` takes at least; zero where nothing is known.
  absl::Duration TimeFor(uint64_t tokens, MonotonicTime now) const;

 private:
  int warm_up_left_ = kWarmUpSamples;
  double seconds_per_token_ = 0.0;
  MonotonicTime learned_ = MonotonicTime::InfinitePast();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_PREFILL_SPEED_H_
