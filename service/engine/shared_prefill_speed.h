// How fast a model reads prompts. The engine measures it, and other threads read it.
#ifndef LONGSTREAM_SERVICE_ENGINE_SHARED_PREFILL_SPEED_H_
#define LONGSTREAM_SERVICE_ENGINE_SHARED_PREFILL_SPEED_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/costs/prefill_speed.h"

namespace longstream {

// A PrefillSpeed that several threads may use.
class SharedPrefillSpeed {
 public:
  void Learn(uint64_t tokens, absl::Duration time, MonotonicTime now) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    speed_.Learn(tokens, time, now);
  }
  absl::Duration TimeFor(uint64_t tokens, MonotonicTime now) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return speed_.TimeFor(tokens, now);
  }

 private:
  mutable absl::Mutex mutex_;
  PrefillSpeed speed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_SHARED_PREFILL_SPEED_H_
