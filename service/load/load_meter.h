// Measures the load once a second, and tells it.
#ifndef LONGSTREAM_SERVICE_LOAD_LOAD_METER_H_
#define LONGSTREAM_SERVICE_LOAD_LOAD_METER_H_

#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/timers.h"
#include "service/load/load.h"
#include "service/load/load_metrics.h"
#include "service/load/load_window.h"

namespace longstream {

class LoadListener {
 public:
  virtual ~LoadListener() = default;
  // Called after each measurement. Must not block, and must not call the meter.
  virtual void OnLoad(const Load& load) = 0;
};

// Reads the metrics of all models from the registry of Prometheus, so its numbers are those of a
// scrape. Writes the load to the registry too. Thread-safe.
class LoadMeter {
 public:
  struct Options {
    uint32_t places = 64;       // in the batch of each model
    uint64_t memory_limit = 0;  // bytes of the host's memory that the process may use; 0: unknown
    absl::Duration period = absl::Seconds(1);   // InfiniteDuration: only Measure measures
    absl::Duration window = absl::Seconds(10);  // of rates and means
  };

  // Measures once at once. Throws std::system_error if the system gives no thread.
  LoadMeter(std::shared_ptr<prometheus::Registry> registry, const Options& options);
  LoadMeter(const LoadMeter&) = delete;
  LoadMeter& operator=(const LoadMeter&) = delete;

  absl::Duration period() const { return options_.period; }
  // The last measurement.
  Load Latest() const ABSL_LOCKS_EXCLUDED(mutex_);

  void AddListener(LoadListener* listener) ABSL_LOCKS_EXCLUDED(mutex_);
  // The listener is not called any more when this returns.
  void RemoveListener(LoadListener* listener) ABSL_LOCKS_EXCLUDED(mutex_);

  // Measures now. One thread at a time.
  void Measure() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void MeasureInTime();

  const std::shared_ptr<prometheus::Registry> registry_;
  const Options options_;
  mutable absl::Mutex mutex_;
  LoadWindow window_ ABSL_GUARDED_BY(mutex_);
  LoadMetrics metrics_ ABSL_GUARDED_BY(mutex_);
  Load latest_ ABSL_GUARDED_BY(mutex_);
  std::set<LoadListener*> listeners_ ABSL_GUARDED_BY(mutex_);
  Timers timers_;  // last: its thread uses the others
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_LOAD_LOAD_METER_H_
