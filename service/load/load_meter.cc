// Collects the metrics, and asks the system about the process.
#include "service/load/load_meter.h"

#include <ctime>
#include <utility>
#include <vector>

#include "kernels/core/limits/processors.h"
#include "kernels/core/physical_memory.h"
#include "service/load/load_totals.h"

namespace longstream {
namespace {

ProcessUse UseOfThisProcess(uint64_t memory_limit) {
  ProcessUse use;
  timespec cpu{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0) {
    use.cpu_seconds = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9;
  }
  use.cpu_limit = ProcessorLimit();
  use.memory_bytes = AnonymousMemory();
  use.memory_limit = memory_limit;
  return use;
}

}  // namespace

LoadMeter::LoadMeter(std::shared_ptr<prometheus::Registry> registry, const Options& options)
    : registry_(std::move(registry)),
      options_(options),
      window_(options.window, options.places),
      metrics_(registry_.get()) {
  MeasureInTime();
}

Load LoadMeter::Latest() const {
  absl::MutexLock lock(&mutex_);
  return latest_;
}

void LoadMeter::AddListener(LoadListener* listener) {
  absl::MutexLock lock(&mutex_);
  listeners_.insert(listener);
}

void LoadMeter::RemoveListener(LoadListener* listener) {
  absl::MutexLock lock(&mutex_);
  listeners_.erase(listener);
}

void LoadMeter::Measure() {
  // Others ask for the latest load meanwhile.
  const LoadTotals totals = TotalsOf(registry_->Collect());
  const ProcessUse use = UseOfThisProcess(options_.memory_limit);
  absl::MutexLock lock(&mutex_);
  latest_ = window_.Add(MonotonicTime::Now(), totals, use);
  metrics_.Set(latest_, use);
  for (LoadListener* const listener : listeners_) listener->OnLoad(latest_);
}

void LoadMeter::MeasureInTime() {
  Measure();
  if (options_.period == absl::InfiniteDuration()) return;
  timers_.Set(MonotonicTime::Now() + options_.period, [this] { MeasureInTime(); });
}

}  // namespace longstream
