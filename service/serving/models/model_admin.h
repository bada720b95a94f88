// Loads, swaps and unloads models for an operator while the server runs.
#ifndef LONGSTREAM_SERVICE_SERVING_MODELS_MODEL_ADMIN_H_
#define LONGSTREAM_SERVICE_SERVING_MODELS_MODEL_ADMIN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/growing_pause.h"
#include "service/clock/monotonic_time.h"
#include "service/serving/engines/engine_uses.h"
#include "service/serving/model_registry.h"
#include "service/serving/models/alias_admin.h"
#include "service/serving/session_manager.h"

namespace longstream {

// Thread-safe. Load and Swap look for the model's directory, and Swap and Unload wait for the
// listener of the registry; Stop waits for the thread of this object, and the destructor for
// operations. Nothing else blocks. Callbacks run on the thread of the call, on the loading thread
// of the registry, or on the thread of this object, and must not block.
//
// An operation that has begun goes on when its call has gone: List says how it stands.
class ModelAdmin {
 public:
  struct Options {
    // Directories that have the directories of models.
    std::vector<std::string> model_directories;
    uint32_t max_batch_tokens = kDefaultBatchTokens;
    uint32_t max_batch_sequences = kDefaultBatchSequences;
    absl::Duration grace = absl::Seconds(30);  // for running turns, if a call names no time
    AliasAdmin::Options aliases = {};
  };

  // A model to load.
  struct Wanted {
    std::string name;          // that clients use
    std::string directory;     // its name in the model directories; empty: as `name`
    std::string backend;       // empty: the plugin that fits best
    std::string device;        // empty: auto
    std::string version;       // empty: "1", or the next number after that of a model that is there
    uint64_t cache_bytes = 0;  // 0: a share of the memory that is left
    std::string options_json;  // empty: none
  };
  struct Moving {
    // Sessions of the earlier version that have the same tokenizer go on with the version that new
    // sessions get then, which reads their histories anew, when their running turns have ended.
    bool recompute_sessions = false;
    // Then the earlier version is unloaded as by Unload, but sessions that can move still do.
    // Absent: when its last session has ended.
    std::optional<absl::Duration> drain_timeout;
  };

  // A version of a model, and what it holds.
  struct Model {
    ModelStatus status;
    size_t sessions = 0;  // in memory
  };

  // `models` and `sessions` outlive the object.
  ModelAdmin(ModelRegistry* models, SessionManager* sessions, Options options);
  // Stops, and waits for the operations that have begun.
  ~ModelAdmin();
  ModelAdmin(const ModelAdmin&) = delete;
  ModelAdmin& operator=(const ModelAdmin&) = delete;

  using Progress = std::function<void(const ModelStatus& status)>;
  using Loaded = std::function<void(absl::StatusOr<ModelStatus> loaded)>;
  // Errors as for ModelRegistry::Load, and INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION: as for
  // FindModelDirectory. ALREADY_EXISTS, too: an alias has the name.
  void Load(const Wanted& wanted, Progress progress, const Loaded& loaded)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Errors as for ModelRegistry::Swap and for Load.
  void Swap(const Wanted& wanted, const Moving& moving, Progress progress, Loaded loaded)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // New sessions and turns are refused at once. `unloaded` is called when the memory of all
  // versions is free. Turns that run `grace` later (absent: Options::grace) end with
  // FAILED_PRECONDITION. Errors as for ModelRegistry::BeginUnload and AliasAdmin::RemoveModel.
  void Unload(std::string_view name, std::optional<absl::Duration> grace,
              std::function<void(absl::Status)> unloaded) ABSL_LOCKS_EXCLUDED(mutex_);

  // The server stops: no session moves and no version goes from now on. Operations that have not
  // begun, and unloads, end with UNAVAILABLE.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // All versions of all models, in the order of their names.
  std::vector<Model> List() const;

  AliasAdmin& aliases() { return aliases_; }
  const ModelRegistry& models() const { return *models_; }

 private:
  // A call of Unload.
  class Unloading {
   public:
    Unloading(size_t versions, std::function<void(absl::Status)> unloaded)
        : left_(versions), unloaded_(std::move(unloaded)) {}
    // A version is gone, or will not go.
    void Finish(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

   private:
    absl::Mutex mutex_;
    size_t left_ ABSL_GUARDED_BY(mutex_);
    std::function<void(absl::Status)> unloaded_ ABSL_GUARDED_BY(mutex_);  // until it was called
  };

  // A version that was replaced or is being unloaded.
  struct Leaving {
    std::shared_ptr<Engine> engine;
    bool ends_turns = false;  // no turn begins, and those that run at `deadline` are cancelled
    MonotonicTime deadline;   // of turns, or of the time for sessions to end
    absl::Duration grace;     // for turns after that
    std::shared_ptr<Unloading> unloading;  // shared by the versions of a name; may be nullptr

    bool moves = false;  // its sessions go to the present version
    // The sessions are looked at again then. While none can move, this is rare.
    MonotonicTime move_at = MonotonicTime::InfinitePast();
    GrowingPause pause{kLeastPause, kMostPause};
    MovePass pass;
    std::optional<MonotonicTime> moves_until;  // set when no turn runs any more
    size_t sessions = 0;                       // then, or since the latest ones have left

    // When the version was looked at last.
    EngineUses::Count uses;
    size_t turns = 0;
  };

  // How often the versions in leaving_ are looked at: the longer nothing changes, the less.
  static constexpr absl::Duration kLeastPause = absl::Milliseconds(20);
  static constexpr absl::Duration kMostPause = absl::Seconds(1);

  absl::StatusOr<ModelSource> SourceOf(const Wanted& wanted) const;
  void Leave(Leaving leaving) ABSL_LOCKS_EXCLUDED(mutex_);
  // The version will not go, because the server stops.
  static void Refuse(const Leaving& leaving);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Does the next thing for a version in leaving_. True: its engine is being stopped.
  bool Advance(Leaving& leaving) ABSL_LOCKS_EXCLUDED(mutex_);
  // Parts of Advance. Move begins to move sessions, and returns whether some may be left.
  bool Move(Leaving& leaving, MonotonicTime now);
  // Begins to unload a version that nobody uses, or whose time for sessions to end has passed.
  // Returns whether it did.
  bool BeginUnload(const Leaving& leaving, MonotonicTime now) const;
  // True: the uses of the version have changed since it was looked at last.
  bool NoteUses(Leaving& leaving) const;
  // Counts an operation until the result is destroyed.
  std::shared_ptr<void> Operation() ABSL_LOCKS_EXCLUDED(mutex_);

  ModelRegistry* const models_;
  SessionManager* const sessions_;
  const Options options_;
  AliasAdmin aliases_;

  mutable absl::Mutex mutex_;
  std::list<Leaving> arriving_ ABSL_GUARDED_BY(mutex_);  // for leaving_
  int num_operations_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Leaving> leaving_;  // only the thread uses it

  std::thread thread_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_MODELS_MODEL_ADMIN_H_
