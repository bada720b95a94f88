// The engine of one model: a thread that turns waiting work into steps.
#ifndef LONGSTREAM_SERVICE_ENGINE_ENGINE_H_
#define LONGSTREAM_SERVICE_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/core/executor.h"
#include "service/config/batch_limits.h"
#include "service/engine/policy/admission.h"
#include "service/engine/shared_prefill_speed.h"
#include "service/engine/step_pipeline.h"
#include "service/engine/turn/active_turn.h"
#include "service/engine/turn/reader_wakes.h"
#include "service/engine/turn/turn.h"
#include "service/metrics/model_metrics.h"
#include "service/models/served_model.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Every public function may be called from any thread and returns at once. The engine thread does
// the work between two steps, in the order of the calls. Callbacks run on the engine thread and
// must not block. Readers of turns are woken there and on the threads of Options::executor
// (ReaderWakes).
//
// If the model's device works beside the host (LS_CAP_LOOK_AHEAD), two steps are in flight; the
// second is composed before the first one's tokens are known (StepPipeline). A deadline or a
// cancellation ends a turn when its steps in flight are done, two at most. Tokens drawn for a turn
// that has ended are dropped.
//
// The engine thread alone calls the backend and touches the caches of the model's sessions. Open,
// Fork, Close and the start of a turn take effect in the order of their messages. A session that is
// closed by then gets no caches and runs no turn, even if it was open when the message was posted.
class Engine {
 public:
  struct Options {
    uint32_t max_batch_tokens = kDefaultBatchTokens;
    uint32_t max_batch_sequences =
        kDefaultBatchSequences;          // per step; also the most turns that compute at once
    size_t max_open_turns = 1024;        // including turns that wait for their reader or for input
    size_t max_waiting_turns = 256;      // beyond it: RESOURCE_EXHAUSTED
    size_t stream_buffer_bytes = 65536;  // a reader that is further behind pauses its turn
    double max_decode_stretch = 6;       // > 1; of a step that also reads prompts (StepCostModel)
    size_t max_steps_in_flight = 2;      // 1 or 2; 1 is used where the backend cannot look ahead
    // A turn that has waited this long for its client to read or to send ends: DEADLINE_EXCEEDED.
    absl::Duration client_timeout = absl::Minutes(5);
    // Its threads wake readers; if it has none, the engine thread does. Borrowed, outlives the
    // engine.
    Executor executor = {};
    FailureListener on_failure = nullptr;  // may be empty
    // Runs once, on the engine thread, when the model's device is lost: `lost` is UNAVAILABLE and
    // says why. Every turn has ended with it by then; later turns fail likewise. May be empty.
    std::function<void(const absl::Status& lost)> on_lost = nullptr;
  };

  // `metrics` outlives the engine.
  Engine(std::shared_ptr<ServedModel> model, const Options& options, ModelMetrics* metrics);
  // Ends every turn with UNAVAILABLE and frees every session's caches. Sessions may live on; they
  // are empty shells.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ServedModel& model() const { return *model_; }

  using Done = std::function<void(absl::Status)>;
  using Closed = std::function<void(uint64_t position)>;

  // Gives a new session its caches, then drops the lease. Not OK: the session is closed; CANCELLED:
  // another caller has closed it.
  void Open(TurnLease session, Done done);
  // Copies the session `source` into the new session `target`, then drops both leases. Not OK:
  // `target` is closed; NOT_FOUND: `source` was closed.
  void Fork(TurnLease source, TurnLease target, Done done);
  // Frees the caches of a session that was closed (Session::Close), once; a running turn is
  // cancelled.
  void Close(std::shared_ptr<Session> session, Closed closed);

  // Queues a turn of the leased session; a kScore turn has a session of its own. turn->stream has
  // the outcome. Not OK: the turn is refused, its stream stays empty and the lease is dropped.
  // INVALID_ARGUMENT: as CheckPrompt; RESOURCE_EXHAUSTED: the queue is full; DEADLINE_EXCEEDED: the
  // deadline cannot be met; UNAVAILABLE: the engine drains.
  absl::Status Start(std::shared_ptr<Turn> turn, TurnLease lease);

  // Counts a turn of this model that was refused before Start.
  void CountRefusal(const absl::Status& status) const;

  // Looks at cancellations, input and readers now rather than at the next step.
  void Wake();

  // Blocks until the work of all earlier calls is done. Not from a callback.
  void Flush();

  // Refuses new turns from now on.
  void BeginDrain() { draining_.store(true); }
  bool draining() const { return draining_.load(); }
  // Turns that wait or run.
  size_t num_turns() const { return num_turns_.load(); }
  // Ends every turn with `status`.
  void AbortAll(absl::Status status);

 private:
  void Run();
  // Runs the messages of other threads. False: the engine must stop.
  bool RunMailbox() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sleeps until there is a message, or until the earliest deadline.
  void Sleep() ABSL_LOCKS_EXCLUDED(mutex_);
  // Before the first step after a sleep: waits for turns that arrive together with the present
  // ones. Otherwise the first turn's prompt would be read alone, and the others would be decoded
  // one step behind it: that takes more steps, each of which reads all weights. The wait is a small
  // part of the time that reading the prompts takes; it ends when messages no longer follow each
  // other closely or the engine is woken. True: there is something to look at before the step.
  bool GatherTurns() ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs on the engine thread, once; may own leases, so it can be moved but not copied.
  using Message = absl::AnyInvocable<void()>;
  void Post(Message message) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Enqueue(std::shared_ptr<Turn> turn, TurnLease lease);
  // A place in the queue. RESOURCE_EXHAUSTED: it is full.
  absl::Status TakePlace() ABSL_LOCKS_EXCLUDED(mutex_);
  void GivePlaces(size_t count) ABSL_LOCKS_EXCLUDED(mutex_);

  // CANCELLED: the session is closed, and gets no caches.
  absl::Status EnsureCaches(Session& session);
  absl::Status CopySession(TurnLease& source, TurnLease& target);

  // The parts of one round of the loop.
  void EndAborted();
  // Takes in the clients' input, and looks once at each running turn's part in the next step. Ends
  // turns whose client is silent for too long. True: a turn has ended.
  bool LookAtRunning();
  // Admits turns from the front of the queue (AdmissionRound). True: this has ended a turn.
  bool AdmitWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  // False: there was nothing to do.
  bool Step();
  void GiveUp();

  absl::Status CheckDeadline(const Turn& turn) const;
  void PublishMetrics();

  // Parts of AdmitWaiting.
  enum class Admission { kAdmitted, kWaits, kRefused };
  Admission TryToAdmit(ActiveTurn& turn, AdmissionRound& round) const;
  uint64_t FreeBytes() const;
  AdmissionBudget Budget() const;
  AdmissionPlaces Places() const;
  // Tells TakePlace how many turns have left the queue and which places there are.
  void PublishRoom(size_t left_queue, const AdmissionPlaces& places) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<ServedModel> model_;  // shared with callers that describe the model
  const Options options_;
  ModelMetrics* const metrics_;

  std::atomic<bool> draining_{false};
  std::atomic<size_t> num_turns_{0};
  SharedPrefillSpeed prefill_speed_;

  absl::Mutex mutex_;
  std::vector<Message> mailbox_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // turns, also those in the mailbox
  size_t room_ ABSL_GUARDED_BY(mutex_);             // turns that could be admitted at once
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Owned by the engine thread.
  using Turns = StepPipeline::Turns;
  Turns waiting_;  // by priority, then arrival
  Turns running_;
  StepPipeline pipeline_;  // of running_
  ReaderWakes wakes_;
  std::vector<std::shared_ptr<Session>> open_sessions_;
  bool gave_up_ = false;

  std::thread thread_;  // last: starts when everything above stands
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_ENGINE_H_
