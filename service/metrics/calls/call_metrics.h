// The Prometheus metric of calls. docs/metrics.md has its name.
#ifndef LONGSTREAM_SERVICE_METRICS_CALLS_CALL_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_CALLS_CALL_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// Counts the calls of all listeners by their methods and status codes. Thread-safe.
class CallMetrics {
 public:
  // The registry outlives the object. `watched`: methods whose counters of success and of errors of
  // the server begin with 0, so that a rate sees the first error, too.
  CallMetrics(prometheus::Registry* registry, const std::vector<std::string>& watched);

  // A call of `method`, such as "/longstream.v1.Longstream/Generate", has ended. Methods that the
  // program does not have are counted together.
  void Count(std::string_view method, absl::StatusCode code) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  prometheus::Family<prometheus::Counter>& family_;
  absl::Mutex mutex_;
  prometheus::Counter* Of(std::string_view method, absl::StatusCode code)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  using Key = std::pair<std::string, absl::StatusCode>;
  std::map<Key, prometheus::Counter*> counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_CALLS_CALL_METRICS_H_
