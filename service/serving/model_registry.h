// The models of this server by name, each with its engine. Models come and go while it runs.
#ifndef LONGSTREAM_SERVICE_SERVING_MODEL_REGISTRY_H_
#define LONGSTREAM_SERVICE_SERVING_MODEL_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
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

enum class ModelState {
  kLoading,   // also while it waits for other models to be loaded
  kWarming,   // it is loaded, and computes its first tokens
  kReady,     // new sessions begin on it
  kDraining,  // it is being unloaded, or a newer version has its name; no session begins on it
  kGone,      // it was unloaded, and its memory is free; no list has it
  kFailed,    // it could not be loaded, or has lost its device
};

// The state of a model at one moment.
struct ModelStatus {
  std::string name;
  ModelState state = ModelState::kLoading;
  absl::Status error;  // set if the state is kFailed
  // Set if the state is kReady or kDraining. Also set if a loaded model failed later because its
  // device was lost, so that its sessions can still be closed.
  std::shared_ptr<Engine> engine;
  std::string version;
  std::string directory;
  uint64_t expected_bytes = 0;  // of memory, as far as they are known before it is loaded
  // Its name in the MemoryPlan. Two versions may have one name.
  std::string plan_name;
};

// Thread-safe. A call that has found a model holds its engine, so the engine exists as long as the
// call needs it, and no call waits while a model is loaded or unloaded. Engine::Stop says what the
// call gets from the engine of a model that was unloaded meanwhile.
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
    // Called on the loading thread with the engine of each model that was loaded, before it is
    // ready. May block. May be empty.
    std::function<void(const std::shared_ptr<Engine>& engine)> prepare = nullptr;
  };

  // Called on the loading thread when a model is ready, could not be loaded, or is gone, and on the
  // thread of BeginUnload when it is draining. If a model fails later, called on its engine's
  // thread. One call at a time; a state that has passed meanwhile is left out. `engine` is nullptr
  // unless the model is ready. Must not load or unload models.
  using StateListener = std::function<void(const ModelStatus& status)>;

  // Loads `sources`, one after the other, on a new thread. The models share the memory as
  // MemoryPlan says; shares change each time that a model has been loaded or has lost its device.
  // The other models then get its share, but for what its sessions hold until they are closed. Its
  // weights stay in memory, because its sessions refer to it.
  ModelRegistry(const Options& options, std::vector<ModelSource> sources, StateListener listener);
  // Waits for the model that is being loaded. The engines end their turns with UNAVAILABLE, and
  // stop.
  ~ModelRegistry();
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  // Lets the loading thread begin, if Options::load_at_once is false.
  void BeginToLoad() ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the engine of a model. If the server has only one model, an empty name means that
  // model; one that is being loaded under a new name does not count. NOT_FOUND: no model has this
  // name. UNAVAILABLE: the model is loading or has failed.
  // FAILED_PRECONDITION: the model is being unloaded.
  absl::StatusOr<std::shared_ptr<Engine>> Find(std::string_view name) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether turns of sessions on this engine can begin. UNAVAILABLE: the model has failed. Also
  // returns the errors of Engine::CheckOpen.
  absl::Status Check(const Engine& engine) const ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<ModelStatus> Status(std::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_);
  // One for each name: the version on which new sessions begin.
  std::vector<ModelStatus> List() const ABSL_LOCKS_EXCLUDED(mutex_);
  // All versions, in the order of their names; those that are being loaded or drained included.
  std::vector<ModelStatus> ListVersions() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The engines of all versions.
  std::vector<std::shared_ptr<Engine>> Engines() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts what sessions and their turns hold in the host's memory. Lives as long as the registry.
  HostMemory* host_memory() const { return host_memory_.get(); }
  // For objects whose charges may outlive the registry.
  std::shared_ptr<HostMemory> shared_host_memory() const { return host_memory_; }
  // The tenants of the configuration: only they may have sessions.
  const Tenants& tenants() const { return tenants_; }

  // Blocks until no model of `sources` is loading any more. Returns OK if all models are ready,
  // otherwise the first failure.
  absl::Status WaitUntilLoaded() const ABSL_LOCKS_EXCLUDED(mutex_);

  // ------------------------------------------------------------ models at run time
  //
  // The loading thread loads, warms up and unloads one model after the other. A name has one
  // operation at a time: another one is ABORTED. RESOURCE_EXHAUSTED: too many operations wait.

  struct LoadCallbacks {
    // The state has changed to kLoading or kWarming. Called on the loading thread.
    std::function<void(const ModelStatus& status)> on_progress;
    // The model is ready, or was not loaded: then its memory is free, and the models and their
    // names are as before. Called on the loading thread, or on that of the call.
    std::function<void(absl::StatusOr<ModelStatus> loaded)> done;
    // The model is ready and has the name of an earlier version, whose engine this is. Called on
    // the loading thread, before the name is free for another operation and before `done`. May be
    // empty.
    std::function<void(std::shared_ptr<Engine> engine)> on_replaced = nullptr;
  };
  // Loads a model under a new name. ALREADY_EXISTS: a model has this name, and has not failed.
  // RESOURCE_EXHAUSTED: there is not enough memory; the message names the bytes. Also returns the
  // errors of ServedModel::Load and WarmUp, and UNAVAILABLE: the server is shutting down.
  void Load(ModelSource source, const LoadCallbacks& callbacks) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, but errors with which no load begins are returned and not passed to `done`. Calls no
  // callback on this thread.
  absl::Status TryLoad(ModelSource source, const LoadCallbacks& callbacks)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Loads another version of a model beside it. When it is ready, new sessions begin on it, and the
  // earlier version is kDraining until Retire. source.version empty: the next free number.
  // NOT_FOUND: no model has this name. FAILED_PRECONDITION: the model is not ready. ALREADY_EXISTS:
  // a version with this label is there. Other errors as for Load.
  void Swap(ModelSource source, const LoadCallbacks& callbacks) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on no session and no turn begins on any version of this name. The operation ends when
  // Retire has been called for each of them. A model that could not be loaded is removed at once,
  // and the result is empty. NOT_FOUND: no model has this name. UNAVAILABLE: it is loading.
  absl::StatusOr<std::vector<std::shared_ptr<Engine>>> BeginUnload(std::string_view name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, but the listener is not told: call Tell after it.
  absl::StatusOr<std::vector<std::shared_ptr<Engine>>> BeginUnloadUntold(std::string_view name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells the listener the present state of a model, if it does not know it. It is called after
  // each change, one call at a time, so the last state that the listener hears is the present one.
  void Tell(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_, listener_mutex_);
  // Stops the engine of a version that is kDraining, and frees its memory and its metrics. Calls
  // `done` on the loading thread. UNAVAILABLE: CancelOperations was called before.
  void Retire(std::shared_ptr<Engine> engine, const std::function<void(absl::Status)>& done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Operations that have not begun end with UNAVAILABLE, on this thread, and so do later ones. No
  // further model of `sources` is loaded.
  void CancelOperations() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // An operation that waits for the loading thread.
  struct Job {
    std::function<void()> run;     // on the loading thread
    std::function<void()> cancel;  // instead, on any thread: answers UNAVAILABLE
  };

  // The loading thread runs the following functions.
  void LoadAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void LoadSources() ABSL_LOCKS_EXCLUDED(mutex_);
  // May throw std::system_error or std::bad_alloc.
  ModelStatus Load(const ModelSource& source);
  absl::StatusOr<std::shared_ptr<ServedModel>> LoadWithinPlan(const ModelSource& source,
                                                              const std::string& plan_name);
  std::shared_ptr<Engine> MakeEngine(const std::shared_ptr<ServedModel>& model,
                                     const std::string& plan_name);
  // The engine takes part in the division of memory.
  void Share(const std::string& plan_name, const std::shared_ptr<Engine>& engine);
  // Gives each model its share. False: a model holds more than its share, so this must be tried
  // again when sessions have been closed.
  bool ShareMemory() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasNews() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !lost_.empty() || !jobs_.empty();
  }
  // Measures what the process and the sessions hold.
  void MeasureMemory();
  void LogShares() const;
  void Lose(const std::string& plan_name, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Models at run time (model_operations.cc).
  //
  // Adds a job. RESOURCE_EXHAUSTED: too many wait. UNAVAILABLE: CancelOperations was called.
  absl::Status AddJob(Job job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs the next job, if there is one.
  void RunJob() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status BeginLoad(const ModelSource& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginSwap(ModelSource* source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NextVersion(std::string_view name) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Errors with which no load begins.
  absl::Status AddLoad(ModelSource source, const LoadCallbacks& callbacks, bool swaps)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RunLoad(const ModelSource& source, const LoadCallbacks& callbacks, bool swaps)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Answers a load that has failed, or that was cancelled before it began. Any thread may call it.
  void EndLoad(const ModelSource& source, const LoadCallbacks& callbacks, bool swaps,
               const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // The load has failed: the names are as before.
  void Revert(const ModelSource& source, bool swaps) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The load has succeeded. The name stays busy. Returns the engine of the earlier version.
  std::shared_ptr<Engine> Publish(const ModelSource& source, std::shared_ptr<Engine> engine,
                                  bool swaps) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Loads and warms up. After an error everything is as before.
  absl::StatusOr<std::shared_ptr<Engine>> LoadNow(const ModelSource& source,
                                                  const LoadCallbacks& callbacks);
  // Makes room for a model that is not loaded yet. After an error nothing has changed, except that
  // idle sessions may have been evicted.
  absl::Status Admit(const ModelSource& source, const std::string& plan_name);
  void SetProgress(const ModelSource& source, ModelState state, uint64_t bytes,
                   const LoadCallbacks& callbacks) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunRetire(const std::shared_ptr<Engine>& engine) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the model is there for clients: it is not being loaded under a new name.
  bool IsPublished(const ModelStatus& status) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The statuses of all versions.
  std::vector<const ModelStatus*> Versions() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::vector<ModelSource> sources_;
  const StateListener listener_;

  // Declared before the engines, because sessions and turns use it until they are destroyed.
  const std::shared_ptr<HostMemory> host_memory_;
  const Tenants tenants_;

  // The state of a model that the listener was told last.
  struct Told {
    ModelState state = ModelState::kLoading;
    std::string version;
    bool operator==(const Told&) const = default;
  };
  // Held while the listener is called. Taken before mutex_.
  absl::Mutex listener_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::map<std::string, Told, std::less<>> told_ ABSL_GUARDED_BY(listener_mutex_);

  mutable absl::Mutex mutex_;
  bool may_load_ ABSL_GUARDED_BY(mutex_);  // also true when the registry is being destroyed
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The plan's names of models that were lost and still have their share.
  std::vector<std::string> lost_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ModelStatus, std::less<>> models_ ABSL_GUARDED_BY(mutex_);
  // Versions of a name in models_ that are being loaded or drained.
  std::vector<ModelStatus> others_ ABSL_GUARDED_BY(mutex_);
  // Failed models whose name is being loaded.
  std::map<std::string, ModelStatus, std::less<>> replaced_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> busy_ ABSL_GUARDED_BY(mutex_);  // names with an operation
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool cancels_jobs_ ABSL_GUARDED_BY(mutex_) = false;

  // Only the loading thread uses these members, and then the destructor.
  MemoryPlan plan_;
  std::map<std::string, std::shared_ptr<Engine>> sharing_;  // models whose budget can change
  // By the engines, which use them until they are stopped.
  std::map<const Engine*, std::unique_ptr<ModelMetrics>> metrics_;

  std::thread loader_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_MODEL_REGISTRY_H_
