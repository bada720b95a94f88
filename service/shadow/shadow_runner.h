// Replays turns in the background, one after the other.
#ifndef LONGSTREAM_SERVICE_SHADOW_SHADOW_RUNNER_H_
#define LONGSTREAM_SERVICE_SHADOW_SHADOW_RUNNER_H_

#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/engine.h"
#include "service/engine/live_work.h"
#include "service/metrics/shadow_metrics.h"
#include "service/shadow/shadow_queue.h"
#include "service/shadow/shadow_replay.h"

namespace longstream {

// A thread that takes turns from the queue and tells the metrics what it found. While there is live
// work, it computes nothing. A replay holds no model: a model that is unloaded ends it.
class ShadowRunner {
 public:
  // The engine of a model that is served. Any error: the turn is dropped (ShadowDrop::kModel).
  using FindEngine = std::function<absl::StatusOr<std::shared_ptr<Engine>>(std::string_view model)>;

  // `live`: of the engines. `find` works, and `metrics` exists, until Stop has returned.
  ShadowRunner(std::shared_ptr<ShadowQueue> queue, FindEngine find, std::shared_ptr<LiveWork> live,
               ShadowMetrics* metrics);
  ~ShadowRunner() { Stop(); }
  ShadowRunner(const ShadowRunner&) = delete;
  ShadowRunner& operator=(const ShadowRunner&) = delete;

  // Drops the turns that wait, and the one that is being replayed. Blocks until that one has ended,
  // which takes a step at most. Not to be called by two threads at once.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  void Replay(ShadowTurn turn) ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<ShadowQueue> queue_;
  const FindEngine find_;
  const std::shared_ptr<LiveWork> live_;
  ShadowMetrics* const metrics_;

  absl::Mutex mutex_;
  std::shared_ptr<ShadowReplay> current_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  const LiveWork::Listener on_quiet_;
  std::thread thread_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SHADOW_SHADOW_RUNNER_H_
