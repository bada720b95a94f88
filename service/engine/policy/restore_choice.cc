// Compares the time of reading a snapshot with that of computing its caches.
#include "service/engine/policy/restore_choice.h"

#include <algorithm>

namespace longstream {

void RestoreSpeed::Learn(uint64_t bytes, absl::Duration time) {
  constexpr double kShare = 0.25;  // of a new measurement
  // The time of a small snapshot tells little about the speed.
  constexpr uint64_t kLeastBytes = uint64_t{64} << 10;
  const double seconds = absl::ToDoubleSeconds(time);
  if (seconds <= 0.0 || bytes < kLeastBytes) return;
  const double measured = std::max(seconds - kFixedSeconds, 0.0) / static_cast<double>(bytes);
  seconds_per_byte_ += kShare * (measured - seconds_per_byte_);
}

double RestoreSpeed::SecondsFor(uint64_t bytes) const {
  return kFixedSeconds + seconds_per_byte_ * static_cast<double>(bytes);
}

double SecondsFor(const Replay& replay, const ReadingTimes& times) {
  const ReadingTimes complete = times.Complete();
  return static_cast<double>(replay.prefill_tokens) * complete.prefill_token +
         static_cast<double>(replay.decode_tokens) * complete.decode_step;
}

absl::Duration RestoreLimit(const Replay& saved, const ReadingTimes& times, absl::Duration least) {
  return std::max(least, absl::Seconds(SecondsFor(saved, times)));
}

std::optional<size_t> ChooseRestore(std::span<const RestoreOption> options, const Replay& whole,
                                    const RestoreCosts& costs) {
  double least = SecondsFor(whole, costs.times);
  std::optional<size_t> chosen;
  for (size_t i = 0; i < options.size(); ++i) {
    const double seconds =
        costs.speed.SecondsFor(options[i].bytes) + SecondsFor(options[i].rest, costs.times);
    if (seconds >= least) continue;
    least = seconds;
    chosen = i;
  }
  return chosen;
}

}  // namespace longstream
