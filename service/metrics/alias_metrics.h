// The Prometheus metrics of the arms of aliases. docs/metrics.md lists their names.
#ifndef LONGSTREAM_SERVICE_METRICS_ALIAS_METRICS_H_
#define LONGSTREAM_SERVICE_METRICS_ALIAS_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

// The metrics of one arm: of the sessions and turns that came by this alias to this model.
// Thread-safe. Times are in seconds. The registry must outlive the object.
class ArmMetrics {
 public:
  ArmMetrics(prometheus::Registry* registry, const std::string& alias, const std::string& model);
  ~ArmMetrics();
  ArmMetrics(const ArmMetrics&) = delete;
  ArmMetrics& operator=(const ArmMetrics&) = delete;

  // Removes the metrics from Prometheus: the alias has this arm no more. Later calls of all
  // functions change nothing, because turns of the arm may still run.
  void Retire();

  void SetWeight(uint64_t weight);
  // A session of the arm was made, or could not be. `code`: as for ModelMetrics::CountRequest.
  void CountSession(std::string_view code);
  // A route has chosen the arm for a session or a turn of its own. `reason`: a name of a
  // RouteReason.
  void CountRouted(std::string_view reason);
  // The model has taken a turn.
  void CountTurn();
  // A turn has ended, or was refused. As ModelMetrics::CountRequest.
  void CountRequest(std::string_view code, std::string_view finish_reason);
  void AddPromptTokens(uint64_t tokens);
  void AddGeneratedTokens(uint64_t tokens);
  void ObserveTimeToFirstToken(double seconds);
  void ObserveInterTokenLatency(double seconds);
  void ObserveEndToEnd(double seconds);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_METRICS_ALIAS_METRICS_H_
