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
#include "service/engine/policy/batch_places.h"
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
// If the device of the model works in parallel with the host (LS_CAP_LOOK_AHEAD), two steps are in
// flight: the engine composes the second step before it knows the tokens of the first
// (StepPipeline). A deadline or a cancellation ends a turn when its steps in flight are done; at
// most two are in flight. The engine drops tokens that are drawn for a turn that has ended.
//
// Only the engine thread calls the backend and touches the caches of the model's sessions. Open,
// Fork, Close and Start post messages, which take effect in the order of the calls. If a session
// has been closed when its message runs, it gets no caches and runs no turn.
class Engine {
 public:
  struct Options {
    uint32_t max_batch_tokens = kDefaultBatchTokens;
    uint32_t max_batch_sequences = kDefaultBatchSequences;  // places in the batch
    // Admitted turns that have something to compute. Turns that wait for their reader or for input
    // do not count.
    size_t max_open_turns = 1024;
    // Turns that wait to be admitted or for a place in the batch. Further turns get
    // RESOURCE_EXHAUSTED.
    size_t max_waiting_turns = 256;
    // If turns wait for a place in the batch, a turn yields its place after this time.
    absl::Duration time_slice = kDefaultTimeSlice;
    size_t stream_buffer_bytes = 65536;  // a turn pauses if its reader is further behind
    double max_decode_stretch = 6;       // > 1; the parameter `stretch` of StepCostModel
    size_t max_steps_in_flight = 2;      // 1 or 2; 1 if the backend cannot look ahead
    // A turn ends with DEADLINE_EXCEEDED if it has waited this long for its client to read or to
    // send.
    absl::Duration client_timeout = absl::Minutes(5);
    // The threads that wake readers. If there are none, the engine thread wakes them. Borrowed;
    // outlives the engine.
    Executor executor = {};
    FailureListener on_failure = nullptr;  // may be empty
    // Called once, on the engine thread, when the device of the model is lost. `lost` is
    // UNAVAILABLE and says why. Before the call, every turn has been aborted with `lost`; later
    // turns fail in the same way. May be empty.
    std::function<void(const absl::Status& lost)> on_lost = nullptr;
  };

  // `metrics` outlives the engine.
  Engine(std::shared_ptr<ServedModel> model, const Options& options, ModelMetrics* metrics);
  // Ends every turn with UNAVAILABLE, closes the sessions and frees their caches. Other owners may
  // still hold the session objects.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ServedModel& model() const { return *model_; }

  using Done = std::function<void(absl::Status)>;
  using Closed = std::function<void(uint64_t position)>;

  // Gives a new session its caches, then drops the lease. On an error the session is closed.
  // CANCELLED: another caller has closed the session.
  void Open(TurnLease session, Done done);
  // Copies the session `source` into the new session `target`, then drops both leases. On an error
  // `target` is closed. NOT_FOUND: `source` was closed. CANCELLED: another caller has closed
  // `target`.
  void Fork(TurnLease source, TurnLease target, Done done);
  // Frees the caches of a session that was closed (Session::Close) and cancels its running turn.
  // Call it once per session.
  void Close(std::shared_ptr<Session> session, Closed closed);

  // Queues a turn of the leased session. A kScore turn has its own session. turn->stream reports
  // the outcome. On an error the turn is refused, its stream stays empty and the lease is dropped.
  // INVALID_ARGUMENT: as for CheckPrompt. RESOURCE_EXHAUSTED: the queue is full. DEADLINE_EXCEEDED:
  // the deadline cannot be met. UNAVAILABLE: the engine is draining.
  absl::Status Start(std::shared_ptr<Turn> turn, TurnLease lease);

  // Counts, in the metrics, a turn of this model that was refused before Start.
  void CountRefusal(const absl::Status& status) const;

  // Wakes the engine thread, so that it checks cancellations, input and readers now.
  void Wake();

  // Changes the budget for caches (BackendModel::SetBudget). `done` gets its result.
  void SetBudget(uint64_t cache_bytes_budget, Done done);

  // Blocks until the work of all earlier calls is done. Must not be called from a callback.
  void Flush();

  // Refuses new turns from now on.
  void BeginDrain() { draining_.store(true); }
  bool draining() const { return draining_.load(); }
  // The number of turns that have been started and have not ended.
  size_t num_turns() const { return num_turns_.load(); }
  // Ends every turn with `status`.
  void AbortAll(absl::Status status);

 private:
  void Run();
  // Runs the messages of other threads. False: the engine must stop.
  bool RunMailbox() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sleeps until there is a message, or until the earliest deadline.
  void Sleep() ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs before the first step after a sleep, and waits for turns that arrive at almost the same
  // time as the present ones. Without the wait, the prompt of the first turn would be read alone
  // and the other turns would be decoded one step later; that takes more steps, and each step reads
  // all weights. The wait is a small part of the time that reading the prompts takes. It ends when
  // no further message comes soon, or when the engine is woken. True: there are messages to run
  // before the step.
  bool GatherTurns() ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs once, on the engine thread. A message may own leases, so it can be moved but not copied.
  using Message = absl::AnyInvocable<void()>;
  void Post(Message message) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Enqueue(std::shared_ptr<Turn> turn, TurnLease lease);
  // Counts another turn in the queue. RESOURCE_EXHAUSTED: the queue is full.
  absl::Status EnterQueue() ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveQueue(size_t count) ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes caches for the session if it has none. CANCELLED: the session is closed.
  absl::Status EnsureCaches(Session& session);
  absl::Status CopySession(TurnLease& source, TurnLease& target);

  // The parts of one round of the loop.
  void EndAborted();
  // Takes in the input of clients and decides, for each running turn, its part in the next step.
  // Ends turns whose client has been silent for too long. True: a turn has ended.
  bool LookAtRunning();
  // Admits turns from the front of the queue (AdmissionRound). True: an admitted turn has already
  // ended.
  bool AdmitWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the places in the batch to turns that have something to compute (SharePlaces).
  void GivePlaces() ABSL_LOCKS_EXCLUDED(mutex_);
  // False: there was nothing to do.
  bool Step();
  void GiveUp();

  absl::Status CheckDeadline(const Turn& turn) const;
  void PublishMetrics();

  // The types and functions below are parts of AdmitWaiting.
  enum class Admission { kAdmitted, kWaits, kRefused };
  Admission TryToAdmit(ActiveTurn& turn, AdmissionRound& round) const;
  uint64_t FreeBytes() const;
  AdmissionBudget Budget() const;
  RunningTurns Running() const;
  // A part of GivePlaces. Tells EnterQueue how many turns have left the queue, how many running
  // turns compute, and how many of them hold or need a place.
  void PublishRoom(size_t computing, size_t need_place) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<ServedModel> model_;  // shared with callers that describe the model
  const Options options_;
  ModelMetrics* const metrics_;

  std::atomic<bool> draining_{false};
  std::atomic<size_t> num_turns_{0};
  SharedPrefillSpeed prefill_speed_;

  absl::Mutex mutex_;
  std::vector<Message> mailbox_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // turns in waiting_ and in the mailbox
  size_t num_parked_ ABSL_GUARDED_BY(mutex_) = 0;   // admitted turns that wait for a place
  size_t room_ ABSL_GUARDED_BY(mutex_);  // how many turns could be admitted and get a place now
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Only the engine thread uses these members.
  using Turns = StepPipeline::Turns;
  Turns waiting_;              // ordered by priority, then arrival
  size_t num_left_queue_ = 0;  // turns that left waiting_ and still count in num_waiting_
  Turns running_;
  StepPipeline pipeline_;  // composes steps of the turns in running_ that hold a place
  PlaceShares place_shares_;
  uint64_t place_changes_ = 0;     // PlaceCandidate::since of the last change
  MonotonicTime places_given_at_;  // when GivePlaces was called last
  ReaderWakes wakes_;
  std::vector<std::shared_ptr<Session>> open_sessions_;
  MonotonicTime published_at_;  // when PublishMetrics was called last
  bool gave_up_ = false;

  std::thread thread_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_ENGINE_H_
