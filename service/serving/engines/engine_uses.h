// How many sessions and calls use each engine.
#ifndef LONGSTREAM_SERVICE_SERVING_ENGINES_ENGINE_USES_H_
#define LONGSTREAM_SERVICE_SERVING_ENGINES_ENGINE_USES_H_

#include <cstddef>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/engine.h"

namespace longstream {

// A call that finds an engine holds it until its session or its turn is there. So an engine that
// was replaced is unloaded when nobody uses it and nobody is about to. Thread-safe.
class EngineUses : public std::enable_shared_from_this<EngineUses> {
 public:
  // The uses of one engine.
  struct Count {
    size_t sessions = 0;  // in memory
    size_t calls = 0;     // that hold the engine
    size_t moves = 0;     // of sessions to another engine, which have begun

    friend bool operator==(const Count& a, const Count& b) = default;
  };

  // A session comes to the engine. Returns the errors of Engine::CheckOpen if the engine is being
  // unloaded; then the session is not counted.
  absl::Status AddSession(const Engine& engine) ABSL_LOCKS_EXCLUDED(mutex_);
  // The session leaves the engine.
  void RemoveSession(const Engine& engine) ABSL_LOCKS_EXCLUDED(mutex_);

  // A call holds the engine until the result and its copies are destroyed. nullptr: the engine is
  // being unloaded.
  std::shared_ptr<void> Hold(const std::shared_ptr<Engine>& engine) ABSL_LOCKS_EXCLUDED(mutex_);

  // A session moves from the engine to another one until the result and its copies are destroyed.
  // nullptr: `most` sessions move already.
  std::shared_ptr<void> BeginMove(const std::shared_ptr<Engine>& from, size_t most)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Count of(const Engine& engine) const ABSL_LOCKS_EXCLUDED(mutex_);

  // In one step: if the engine has no sessions and no turns, and no call holds it, begins to unload
  // it (Engine::BeginUnload). Returns whether it did.
  bool UnloadIfFree(Engine& engine) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same although the engine has sessions and turns.
  bool UnloadIfNoCall(Engine& engine) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // `use`: a member of Count.
  void End(const Engine& engine, size_t Count::*use) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets an engine without uses.
  void Tidy(const Engine& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<const Engine*, Count> counts_ ABSL_GUARDED_BY(mutex_);
};

// An engine that a call has found and holds.
struct FoundEngine {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<void> hold;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ENGINES_ENGINE_USES_H_
