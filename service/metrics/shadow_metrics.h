// The Prometheus metrics of shadows. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_SHADOW_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_SHADOW_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// A pair is the model of a turn and the model that its shadow ran on. Thread-safe. The registry
// must outlive the object.
class ShadowMetrics {
 public:
  // Further pairs are counted together, as "other/other".
  static constexpr size_t kMostPairs = 64;
  // In nats. A greater divergence, also an infinite one, counts as this one, because a single one
  // would make the sum useless for ever.
  static constexpr double kMostKl = 100.0;

  explicit ShadowMetrics(prometheus::Registry* registry);
  ~ShadowMetrics();
  ShadowMetrics(const ShadowMetrics&) = delete;
  ShadowMetrics& operator=(const ShadowMetrics&) = delete;

  // A turn was replayed. `kl`: of each token of its answer. `agreements`: tokens of the answer for
  // which the most probable token of both models is the same.
  void AddTurn(const std::string& model, const std::string& shadow, std::span<const double> kl,
               uint64_t agreements);
  // A turn was not replayed. If one of the models was unloaded meanwhile, the drop counts as one of
  // "other/other".
  void CountDrop(const std::string& model, const std::string& shadow, std::string_view reason);
  void SetQueue(size_t turns, uint64_t bytes);
  // Removes the metrics of all pairs with this model: it was unloaded. Later drops of its turns do
  // not bring them back.
  void Retire(std::string_view model);
  // A model with this name is served now.
  void Return(std::string_view model);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_SHADOW_METRICS_H_
