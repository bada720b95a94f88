// Keeps the minimum over recent samples, and forgets it slowly.
#include "service/engine/costs/prefill_speed.h"

#include <algorithm>

namespace longstream {
namespace {

// A slower sample raises the estimate by at most this factor. So the fastest of the last few tens
// of samples decides.
constexpr double kForgetting = 1.01;

}  // namespace

void PrefillSpeed::Learn(uint64_t tokens, absl::Duration time, MonotonicTime now) {
  if (time <= absl::ZeroDuration()) return;
  if (warm_up_left_ > 0) {
    --warm_up_left_;
    return;
  }
  const double seconds = absl::ToDoubleSeconds(time) / static_cast<double>(tokens);
  const bool fresh = now - learned_ <= kMaxAge;
  seconds_per_token_ = fresh ? std::min(seconds, seconds_per_token_ * kForgetting) : seconds;
  learned_ = now;
}

absl::Duration PrefillSpeed::TimeFor(uint64_t tokens, MonotonicTime now) const {
  if (now - learned_ > kMaxAge) return absl::ZeroDuration();
  return absl::Seconds(seconds_per_token_ * static_cast<double>(tokens));
}

}  // namespace longstream
