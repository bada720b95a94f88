// The Prometheus metrics of one model. docs/metrics.md lists their names and meanings.
#ifndef LONGSTREAM_SERVICE_METRICS_MODEL_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_MODEL_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// Thread-safe. Times are in seconds, sizes in bytes.
class ModelMetrics {
 public:
  struct Labels {
    std::string model;
    std::string version;
    std::string backend;
    std::string device;
  };

  // Bytes by kind of memory. The metric cache_usage_ratio is a kind's bytes divided by the budget.
  struct Memory {
    uint64_t weights = 0;
    uint64_t kv = 0;
    uint64_t window = 0;
    uint64_t state = 0;
    uint64_t checkpoint = 0;
    uint64_t workspace = 0;
    uint64_t budget = 0;         // 0: unlimited
    uint64_t return_points = 0;  // copies of rings and states at the ends of turns
  };

  ModelMetrics(prometheus::Registry* registry, const Labels& labels);
  ~ModelMetrics();
  ModelMetrics(const ModelMetrics&) = delete;
  ModelMetrics& operator=(const ModelMetrics&) = delete;

  // Removes the metrics of the model from Prometheus: it was unloaded. Only the destructor may be
  // called after that.
  void Retire();

  // These functions set gauges.
  // `parked`: running turns that wait for a place in the batch.
  void SetRequests(size_t running, size_t waiting, size_t parked);
  // `unix_seconds`: when the turn arrived that has waited longest for admission; 0: none waits.
  void SetOldestWaiting(double unix_seconds);
  void SetSessions(size_t active, size_t idle);
  // `sessions`: in the store, and not in memory.
  void SetStoredSessions(uint64_t sessions);
  void SetMemory(const Memory& memory);
  void SetStreamQueuedBytes(size_t bytes);

  // These functions add to counters.
  void AddPromptTokens(uint64_t tokens);
  void AddGeneratedTokens(uint64_t tokens);
  void AddReusedTokens(uint64_t tokens);
  // `from_peer`: another replica has sent their caches; otherwise they were read from the store.
  void AddRestoredTokens(uint64_t tokens, bool from_peer);
  void AddRecomputedTokens(uint64_t tokens);
  // `reason`: what needed the memory: "turn", "open", "fork", "import", "budget" or "quota" (of the
  // session's tenant).
  void CountEviction(std::string_view reason);
  // A call read a turn that another call had started. `how`: "attached", "replayed", "forced" or
  // "restarted".
  void CountResumedTurn(std::string_view how);
  // The model drew another token than the one that the client of a resumed turn had received.
  void CountResumeMismatch();
  // `code`: the gRPC name of the status, such as "OK" or "CANCELLED". `finish_reason`: the name of
  // the reason, such as "stop_token", or "".
  void CountRequest(std::string_view code, std::string_view finish_reason);

  // These functions add a value to a histogram.
  void ObserveTimeToFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void ObserveQueue(double seconds);
  void ObservePrefill(double seconds);
  void ObserveDecode(double seconds);
  void ObserveEndToEnd(double seconds);
  void ObserveSessionBytes(uint64_t bytes);
  void ObserveLoad(std::string_view phase, double seconds);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_MODEL_METRICS_H_
