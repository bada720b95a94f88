// The Prometheus metrics of the store of sessions. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_STORE_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_STORE_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// The values of longstream_store_state.
enum class StoreStateMetric { kOk = 0, kFull = 1, kReadOnly = 2, kSlow = 3, kUnreachable = 4 };

// Thread-safe. The registry must outlive it.
class StoreMetrics {
 public:
  explicit StoreMetrics(prometheus::Registry* registry);
  ~StoreMetrics();
  StoreMetrics(const StoreMetrics&) = delete;
  StoreMetrics& operator=(const StoreMetrics&) = delete;

  void SetState(StoreStateMetric state);
  // `kind`: a part of the store.
  void SetBytes(const std::string& kind, uint64_t bytes);
  // A transaction has ended.
  void ObserveCommit(absl::Duration duration);
  // The store has failed to make a change. `code`: the name of a status code.
  void CountError(const std::string& code);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_STORE_METRICS_H_
