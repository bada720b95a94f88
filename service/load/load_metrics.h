// The Prometheus metrics of the load and of the process. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_LOAD_LOAD_METRICS_H_
#define LONGSTREAM_SERVICE_LOAD_LOAD_METRICS_H_

#include <memory>

#include "service/load/load.h"
#include "service/load/load_window.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// Used by one thread at a time. The registry must outlive it.
class LoadMetrics {
 public:
  explicit LoadMetrics(prometheus::Registry* registry);
  ~LoadMetrics();
  LoadMetrics(const LoadMetrics&) = delete;
  LoadMetrics& operator=(const LoadMetrics&) = delete;

  void Set(const Load& load, const ProcessUse& use);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_LOAD_LOAD_METRICS_H_
