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
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/core/executor.h"
#include "service/config/batch_limits.h"
#include "service/engine/policy/admission_budget.h"
#include "service/engine/policy/prefill_speed.h"
#include "service/engine/step_pipeline.h"
#include "service/engine/turn/active_turn.h"
#include "service/engine/turn/reader_wakes.h"
#include "service/engine/turn/turn.h"
#include "service/metrics/model_metrics.h"
#include "service/models/served_model.h"
#include "service/sessions/session.h"

namespace longstream {

// Every public function may be called from any thread and returns at once; what it asks for is
// done by the engine thread between two steps, in the order of the calls. Callbacks run on the
// engine thread and must not block; readers of turns are woken there and on the threads of
// Options::executor, when the engine has given their streams what it has (ReaderWakes).
//
// Where the model's device works beside the host (LS_CAP_LOOK_AHEAD) two steps are in flight, of
// which the second was composed before the first one's tokens were known (StepPipeline). What ends
// a turn, a deadline or a cancellation say, takes effect when its steps in flight are done: one, or
// two then. Tokens drawn for a turn that has ended are dropped.
//
// The engine thread alone calls the backend, and alone touches the caches and histories of the
// model's sessions. Open, Fork, Close and the start of a turn take effect in the order of their
// messages, whatever was true when they were asked for: a session that is closed by then gets no
// caches and runs no turn, and after the message of Close it has none.
class Engine {
 public:
  struct Options {
    uint32_t max_batch_tokens = kDefaultBatchTokens;
    uint32_t max_batch_sequences =
        kDefaultBatchSequences;          // of a step; also of turns that compute at the same time
    size_t max_open_turns = 1024;        // those that wait for their reader or for input included
    size_t max_waiting_turns = 256;      // beyond it: RESOURCE_EXHAUSTED
    size_t stream_buffer_bytes = 65536;  // a reader that is further behind pauses its turn
    double max_decode_stretch = 6;       // > 1; of a step that also reads prompts (StepCostModel)
    size_t max_steps_in_flight = 2;      // 1 or 2; 1 is used where the backend cannot look ahead
    // A turn that has waited this long for its client to read or to send ends: DEADLINE_EXCEEDED.
    absl::Duration client_timeout = absl::Minutes(5);
    // Whose threads wake readers; without any: the engine thread. Borrowed, outlives the engine.
    Executor executor = {};
    FailureListener on_failure = nullptr;  // may be empty
    // The model's device is lost, UNAVAILABLE says why: once, on the engine thread, after every
    // turn has been ended with that. Turns that still come fail likewise. May be empty.
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

  // Gives a new session its caches and frees its turn. Not OK: the session is closed; CANCELLED
  // where somebody else has closed it.
  void Open(std::shared_ptr<Session> session, Done done);
  // Copies `source`, whose turn the caller holds (Session::BeginTurn), into the new session
  // `target`; frees the turns of both. Not OK: `target` is closed; NOT_FOUND where `source` was.
  void Fork(std::shared_ptr<Session> source, std::shared_ptr<Session> target, Done done);
  // Frees a session that was closed (Session::Close), once; a running turn is cancelled.
  void Close(std::shared_ptr<Session> session, Closed closed);

  // Queues a turn; its outcome is read from turn->stream. Not OK: refused, and the stream will stay
  // empty: RESOURCE_EXHAUSTED queue full, ABORTED, NOT_FOUND and FAILED_PRECONDITION from
  // Session::BeginTurn, DEADLINE_EXCEEDED where the deadline cannot be met, UNAVAILABLE draining. A
  // turn of the session that the caller had begun (TurnRequest::holds_turn) is given back then.
  absl::Status Start(std::shared_ptr<Turn> turn);

  // Counts a turn of this model that its caller refused to start.
  void CountRefusal(const absl::Status& status) const;

  // Looks at cancellations, input and readers now rather than at the next step.
  void Wake();

  // Blocks until everything asked for before has been done. Not from a callback.
  void Flush();

  // Refuses new turns from now on.
  void BeginDrain() { draining_.store(true); }
  // Turns that wait or run.
  size_t num_turns() const { return num_turns_.load(); }
  // Ends every turn with `status`.
  void AbortAll(absl::Status status);

 private:
  void Run();
  // Runs what other threads asked for. False: the engine is to stop.
  bool RunMailbox() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sleeps until there is a message, or until the earliest deadline.
  void Sleep() ABSL_LOCKS_EXCLUDED(mutex_);
  // Before the first step behind a sleep: waits for turns that come together with those that are
  // there. Whoever came first would be read alone, and the others be decoded a step behind it: more
  // steps, of which each reads all weights. A small part of what reading the prompts takes, as long
  // as messages follow each other closely and nobody asks to look at something now. True: there is
  // something to look at before the step.
  bool GatherTurns() ABSL_LOCKS_EXCLUDED(mutex_);
  void Post(std::function<void()> message) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Enqueue(std::shared_ptr<Turn> turn);
  // What is looked at before a turn gets a place in the queue.
  absl::Status CheckAdmissible(const Turn& turn) ABSL_LOCKS_EXCLUDED(mutex_);
  // A place in the queue. RESOURCE_EXHAUSTED: it is full.
  absl::Status TakePlace() ABSL_LOCKS_EXCLUDED(mutex_);
  void GivePlaces(size_t count) ABSL_LOCKS_EXCLUDED(mutex_);

  // A closed session gets none: CANCELLED.
  absl::Status EnsureCaches(Session& session);
  absl::Status CopyCaches(Session& source, Session& target);

  // The parts of one round of the loop.
  void EndAborted();
  // Admits from the front of the queue what there is room for. A turn that finds no memory is
  // refused where running turns cannot give back enough, whatever becomes of them; else it waits.
  // Turns behind it that fit may pass it: kMaxOvertaken of them, or any number for as long as what
  // it waits for is not coming from turns that compute.
  void AdmitWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a turn has ended.
  bool TakeInput();
  // False: there was nothing to do.
  bool Step();
  void GiveUp();

  absl::Status CheckDeadline(const Turn& turn) const;
  void PublishMetrics();

  // Parts of AdmitWaiting.
  using Turns = StepPipeline::Turns;
  class AdmissionRound;
  uint64_t FreeBytes() const;
  AdmissionBudget Budget() const;
  // What TakePlace looks at, when so many turns have left the queue and so many compute.
  void PublishRoom(size_t left_queue, size_t computing) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<ServedModel> model_;  // shared with whoever lists models
  const Options options_;
  ModelMetrics* const metrics_;

  std::atomic<bool> draining_{false};
  std::atomic<size_t> num_turns_{0};
  PrefillSpeed prefill_speed_;

  absl::Mutex mutex_;
  std::vector<std::function<void()>> mailbox_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // turns, those in the mailbox included
  size_t room_ ABSL_GUARDED_BY(mutex_);             // turns that could be admitted at once
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Owned by the engine thread.
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
