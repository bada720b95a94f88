// Replays turns of aliases that have a shadow.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_SHADOWS_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_SHADOWS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "service/engine/live_work.h"
#include "service/metrics/shadow_metrics.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager_options.h"
#include "service/shadow/shadow_queue.h"
#include "service/shadow/shadow_runner.h"

namespace longstream {

// Outlives the models. The registry outlives the object.
class ServerShadows {
 public:
  explicit ServerShadows(prometheus::Registry* registry)
      : metrics_(registry),
        queue_(std::make_shared<ShadowQueue>(ShadowQueue::Limits{}, &metrics_)) {}

  // Gives turns to the shadows.
  void AddTo(SessionManagerOptions* options) const {
    options->shadow_tap = [queue = queue_](const std::string& model) {
      return queue->TapFor(model);
    };
  }
  // Replays turns while the result exists. `models` outlives the result. `live`: of their engines.
  std::unique_ptr<ShadowRunner> Run(const ModelRegistry* models, std::shared_ptr<LiveWork> live) {
    const auto find = [models](std::string_view model) { return models->Find(model); };
    return std::make_unique<ShadowRunner>(queue_, find, std::move(live), &metrics_);
  }
  // The model was unloaded: its metrics end.
  void Forget(std::string_view model) { metrics_.Retire(model); }
  // A model with this name is served now.
  void Return(std::string_view model) { metrics_.Return(model); }

 private:
  ShadowMetrics metrics_;
  const std::shared_ptr<ShadowQueue> queue_;  // shared with the taps of turns
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_SHADOWS_H_
