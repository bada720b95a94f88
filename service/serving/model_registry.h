// The models of this server by name, each with its engine.
#ifndef LONGSTREAM_SERVICE_SERVING_MODEL_REGISTRY_H_
#define LONGSTREAM_SERVICE_SERVING_MODEL_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/host_memory/host_memory.h"
#include "service/metrics/model_metrics.h"
#include "service/models/host.h"
#include "service/models/memory_plan.h"
#include "service/models/plugin.h"
#include "service/models/served_model.h"
#include "service/security/tenants/tenants.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace longstream {

enum class ModelState { kLoading, kReady, kFailed };

// The state of a model at one moment.
struct ModelStatus {
  std::string name;
  ModelState state = ModelState::kLoading;
  absl::Status error;  // set if the state is kFailed
  // Set if the state is kReady. Also set if a loaded model failed later because its device was
  // lost, so that its sessions can still be closed.
  std::shared_ptr<Engine> engine;
};

// Thread-safe.
class ModelRegistry {
 public:
  struct Options {
    std::vector<std::shared_ptr<const Plugin>> plugins;
    const Host* host = nullptr;               // outlives the registry
    prometheus::Registry* metrics = nullptr;  // outlives the registry
    Engine::Options engine;                   // the batch sizes come from each ModelSource
    // Bytes of the host's memory for everything in this process (MemoryPlan). 0: no limit; each
    // model may take all memory.
    uint64_t memory_bytes = 0;
    bool load_at_once = true;  // false: loading waits for BeginToLoad
    // Bytes of the host's memory that sessions and their turns may hold. 0: the default
    // (HostReserve).
    uint64_t session_host_bytes = 0;
    uint64_t conversation_bytes = 0;  // of them, for the conversation of one session; 0: no limit
    std::vector<TenantConfig> tenants = {};           // empty: the server has no tenants
    MonotonicClock quota_clock = MonotonicTime::Now;  // as for Tenant
  };

  // Called on the loading thread when a model is ready or could not be loaded. If a model fails
  // later, called on its engine's thread; `engine` is then nullptr.
  using StateListener = std::function<void(const ModelStatus& status)>;

  // Loads `sources`, one after the other, on a new thread. The models share the memory as
  // MemoryPlan says; shares change each time that a model has been loaded or has lost its device.
  // The other models then get its share, but for what its sessions hold until they are closed. Its
  // weights stay in memory, because its sessions refer to it.
  ModelRegistry(const Options& options, std::vector<ModelSource> sources, StateListener listener);
  // Waits for the model that is being loaded. The engines end their turns with UNAVAILABLE.
  ~ModelRegistry();
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  // Lets the loading thread begin, if Options::load_at_once is false.
  void BeginToLoad() ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the engine of a model. If the server has only one model, an empty name means that
  // model. NOT_FOUND: no model has this name. UNAVAILABLE: the model is loading or has failed.
  absl::StatusOr<std::shared_ptr<Engine>> Find(std::string_view name) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<ModelStatus> Status(std::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<ModelStatus> List() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts what sessions and their turns hold in the host's memory. Lives as long as the registry.
  HostMemory* host_memory() const { return host_memory_.get(); }
  // For objects whose charges may outlive the registry.
  std::shared_ptr<HostMemory> shared_host_memory() const { return host_memory_; }
  // The tenants of the configuration: only they may have sessions.
  const Tenants& tenants() const { return tenants_; }

  // Blocks until no model is loading any more. Returns OK if all models are ready, otherwise the
  // first failure.
  absl::Status WaitUntilLoaded() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The loading thread runs the following functions.
  void LoadAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // May throw std::system_error or std::bad_alloc.
  ModelStatus Load(const ModelSource& source);
  absl::StatusOr<std::shared_ptr<ServedModel>> LoadWithinPlan(const ModelSource& source);
  std::shared_ptr<Engine> MakeEngine(const std::shared_ptr<ServedModel>& model);
  // Gives each model its share. False: a model holds more than its share, so this must be tried
  // again when sessions have been closed.
  bool ShareMemory() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasNews() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !lost_.empty(); }
  // Measures what the process and the sessions hold.
  void MeasureMemory();
  void LogShares() const;
  void Lose(const std::string& name, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const std::vector<ModelSource> sources_;
  const StateListener listener_;

  // Declared before the engines, because sessions and turns use it until they are destroyed.
  const std::shared_ptr<HostMemory> host_memory_;
  const Tenants tenants_;

  mutable absl::Mutex mutex_;
  bool may_load_ ABSL_GUARDED_BY(mutex_);  // also true when the registry is being destroyed
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Models that were lost and still have their share.
  std::vector<std::string> lost_ ABSL_GUARDED_BY(mutex_);
  // Declared before models_, because the engines in models_ use these metrics until they are
  // destroyed.
  std::vector<std::unique_ptr<ModelMetrics>> metrics_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ModelStatus, std::less<>> models_ ABSL_GUARDED_BY(mutex_);

  // Only the loading thread uses these members.
  MemoryPlan plan_;
  std::map<std::string, std::shared_ptr<Engine>> sharing_;  // models whose budget can change

  std::thread loader_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_MODEL_REGISTRY_H_
