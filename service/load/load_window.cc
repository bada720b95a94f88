// Differences of counters over the window, and means of gauges.
#include "service/load/load_window.h"

#include <algorithm>

namespace longstream {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

Load LoadWindow::Add(MonotonicTime now, const LoadTotals& totals, const ProcessUse& use) {
  Sample sample{now, totals.most_turns, use.cpu_seconds, 0, 0, 0, 0, 0};
  if (!samples_.empty()) {
    const Sample& before = samples_.back();
    const auto grown = [&](double Sample::*sum, double LoadTotals::*counter) {
      return before.*sum + std::max(0.0, totals.*counter - last_.*counter);
    };
    sample.queue_seconds = grown(&Sample::queue_seconds, &LoadTotals::queue_seconds);
    sample.queued_turns = grown(&Sample::queued_turns, &LoadTotals::queued_turns);
    sample.tokens = grown(&Sample::tokens, &LoadTotals::tokens);
    sample.turns = grown(&Sample::turns, &LoadTotals::turns);
    sample.failed_turns = grown(&Sample::failed_turns, &LoadTotals::failed_turns);
  }
  last_ = totals;
  samples_.push_back(sample);
  while (samples_.size() > 2 && samples_[1].time <= now - length_) samples_.pop_front();

  const Sample& first = samples_.front();
  const double seconds = absl::ToDoubleSeconds(now - first.time);
  double turns = 0;
  for (const Sample& each : samples_) turns += each.most_turns;
  Load load;
  load.turns_running = totals.turns_running;
  load.turns_waiting = totals.turns_waiting;
  load.utilization = Ratio(turns / static_cast<double>(samples_.size()), places_);
  load.queue_seconds =
      Ratio(sample.queue_seconds - first.queue_seconds, sample.queued_turns - first.queued_turns);
  load.cache_usage = totals.cache_usage;
  load.session_bytes = Ratio(totals.session_bytes, totals.session_limit_bytes);
  load.cpu_utilization = Ratio(sample.cpu_seconds - first.cpu_seconds, seconds * use.cpu_limit);
  load.memory_utilization =
      Ratio(static_cast<double>(use.memory_bytes), static_cast<double>(use.memory_limit));
  load.tokens_per_second = Ratio(sample.tokens - first.tokens, seconds);
  load.turns_per_second = Ratio(sample.turns - first.turns, seconds);
  load.failed_turns_per_second = Ratio(sample.failed_turns - first.failed_turns, seconds);
  return load;
}

}  // namespace longstream
