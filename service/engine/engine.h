// The engine of one model: a thread that turns waiting work into steps.
#ifndef LONGSTREAM_SERVICE_ENGINE_ENGINE_H_
#define LONGSTREAM_SERVICE_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/core/executor.h"
#include "service/config/batch_limits.h"
#include "service/engine/background_turns.h"
#include "service/engine/idle_work.h"
#include "service/engine/live_work.h"
#include "service/engine/policy/admission.h"
#include "service/engine/policy/batch_places.h"
#include "service/engine/policy/eviction.h"
#include "service/engine/policy/fair_share.h"
#include "service/engine/policy/queue_room.h"
#include "service/engine/policy/restore_choice.h"
#include "service/engine/shared_prefill_speed.h"
#include "service/engine/step_pipeline.h"
#include "service/engine/turn/active_turn.h"
#include "service/engine/turn/reader_wakes.h"
#include "service/engine/turn/turn.h"
#include "service/metrics/model_metrics.h"
#include "service/models/served_model.h"
#include "service/security/tenants/tenant.h"
#include "service/sessions/stored_caches.h"
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
//
// Eviction: if a turn, an Open or a Fork needs memory that is not free, the engine frees the caches
// of idle sessions (EvictionOrder says which). The next turn of such a session computes them again
// or reads them from the store, whichever takes less time (ActiveTurn). Only sessions that no
// admitted turn uses are evicted. Before any caches it frees return points, the oldest first.
//
// Tenants: the caches of a session count in the quota of its tenant. If a turn, an Open or a Fork
// needs more than the quota has, the engine evicts idle sessions of this tenant. If that is not
// enough, a turn waits for the tenant's running turns; otherwise the call is refused. The queue,
// the places in the batch and the rows of steps are shared between tenants (WorkShares,
// SharePlaces).
//
// Background: turns with TurnRequest::background run only while no other turn runs or waits, in any
// engine of LiveWork, in steps that are planned to be short. If other work needs their memory, they
// end. Drain, num_turns, quotas and metrics do not know them.
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
    // The bytes of the cache budget that return points may take. 0: none are kept.
    uint64_t rollback_bytes = 0;
    // Caches that were computed again after an eviction are not evicted for this time.
    absl::Duration restored_safe = absl::Seconds(10);
    // A turn waits for its caches from the store for this time at least (RestoreLimit).
    absl::Duration least_restore_limit = absl::Seconds(1);
    // The threads that wake readers. If there are none, the engine thread wakes them. Borrowed;
    // outlives the engine.
    Executor executor = {};
    // All tenants, by their indices. Empty: there is one, and nothing of it is counted.
    std::vector<std::shared_ptr<Tenant>> tenants = {};
    // Of all engines that share the processors. nullptr: this one is alone.
    std::shared_ptr<LiveWork> live_work = nullptr;
    absl::Duration background_step = absl::Milliseconds(20);   // as for ChunkPace
    absl::Duration background_pause = absl::Milliseconds(10);  // as for BackgroundBegins
    FailureListener on_failure = nullptr;                      // may be empty
    // Called once, on the engine thread, when the device of the model is lost. `lost` is
    // UNAVAILABLE and says why. Before the call, every turn has been aborted with `lost`; later
    // turns fail in the same way. May be empty.
    std::function<void(const absl::Status& lost)> on_lost = nullptr;
  };

  // `metrics` outlives the engine, or its Stop.
  Engine(std::shared_ptr<ServedModel> model, const Options& options, ModelMetrics* metrics);
  // Ends every turn with UNAVAILABLE, closes the sessions and frees their caches. Other owners may
  // still hold the session objects. Nothing happens after Stop, so any thread may then destroy the
  // engine.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ServedModel& model() const { return *model_; }

  // Refuses new turns with FAILED_PRECONDITION from now on, because the model will be unloaded.
  void BeginUnload() { unloading_.store(true); }
  bool unloading() const { return unloading_.load(); }
  // Ends every turn with `why`, closes the sessions, frees their caches and the model
  // (BackendModel::Close), and ends the engine thread. Blocks until all of this is done. The engine
  // and the ServedModel stay usable: later calls fail, and their callbacks run on the thread of the
  // call, or on that of a call at the same time. Must not be called from a callback. The metrics
  // are not used any more.
  void Stop(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_, metrics_mutex_);

  using Done = std::function<void(absl::Status)>;
  using Closed = std::function<void(uint64_t position)>;

  // Gives a new session its caches, then drops the lease. On an error the session is closed.
  // CANCELLED: another caller has closed the session.
  void Open(TurnLease session, Done done);
  // Copies the session `source` into the new session `target`, then drops both leases. If the
  // source has no caches, the copy has none either. On an error
  // `target` is closed. NOT_FOUND: `source` was closed. CANCELLED: another caller has closed
  // `target`.
  void Fork(TurnLease source, TurnLease target, Done done);
  // As Fork, but the copy gets this state, which shares a beginning with that of the source. Its
  // caches are those of the source, as far back as the states agree; its next turn computes the
  // rest (ReturnTo). `reason`: why, for the turn's usage.
  void ForkAt(TurnLease source, TurnLease target, SessionState state, std::string reason,
              Done done);
  // Gives the session this state, which shares a beginning with its own, then drops the lease. Its
  // caches go back as for ForkAt. NOT_FOUND: the session was closed. FAILED_PRECONDITION: it was
  // closed because the model was unloaded.
  void Rewind(TurnLease session, SessionState state, std::string reason, Done done);
  // Gives up an idle session: frees its caches, as an eviction does, and gives the lease back. An
  // engine, this one or another, can Adopt it.
  void Release(TurnLease session, std::function<void(TurnLease)> released);
  // Takes over a session that has no caches. Its next turn computes them, as after an eviction.
  void Adopt(std::shared_ptr<Session> session);
  // Begins a snapshot of the caches of a session, then drops the lease. Counts its bytes in
  // `charge`, of the session's tenant, which exists until `done` has been called, and evicts idle
  // sessions of the tenant for it. An invalid snapshot: there are no caches, the backend cannot
  // make snapshots of them, or the quota has no room for one. Give it back with Free.
  void BeginSnapshot(TurnLease session, CacheCharge* charge,
                     std::function<void(absl::StatusOr<Snapshot>)> done);
  // Takes the memory of a sequence at `position`, and evicts idle sessions for it. Give the import
  // to Attach or Free. Counts the memory in `charge`, of `tenant`, which exists until `done` has
  // been called. Errors as for BackendModel::BeginImport and Tenant::RefuseCaches.
  void BeginImport(uint64_t position, std::shared_ptr<Tenant> tenant, CacheCharge* charge,
                   std::function<void(absl::StatusOr<SnapshotImport>)> done);
  // Gives a session that has no caches those of the import. ABORTED: the session has caches or runs
  // a turn. NOT_FOUND: it is closed. DATA_LOSS: the import is not complete, or not of these tokens'
  // length. After an error the session is as before, and the import is freed. `other_kernels`: as
  // SessionCaches's, for caches of another replica; absent: a file has brought the caches.
  void Attach(std::shared_ptr<Session> session, SnapshotImport import, Done done,
              std::optional<std::string> other_kernels = std::nullopt);
  void Free(Snapshot snapshot);
  void Free(SnapshotImport import);
  // Saves the caches of a session that has StoredCaches, unless a turn of it runs: then the end of
  // the turn saves them.
  void SaveCaches(std::weak_ptr<Session> session, std::shared_ptr<StoredCaches> stored);
  // The spans of a session from token `from` on could not be saved.
  void ForgetSpans(std::weak_ptr<Session> session, uint64_t from);
  // Frees the caches of a session that was closed (Session::Close) and cancels its running turn.
  // Call it once per session.
  void Close(std::shared_ptr<Session> session, Closed closed);

  // Queues a turn of the leased session. A turn may have its own session. turn->stream reports
  // the outcome. On an error the turn is refused, its stream stays empty and the lease is dropped.
  // INVALID_ARGUMENT: as for CheckPrompt. RESOURCE_EXHAUSTED: the queue is full. DEADLINE_EXCEEDED:
  // the deadline cannot be met. Also returns the errors of CheckOpen. A turn in the background ends
  // with RESOURCE_EXHAUSTED if there is no memory for it, or no more.
  absl::Status Start(std::shared_ptr<Turn> turn, TurnLease lease);

  // Counts, in the metrics, a turn of this model that was refused before Start.
  void CountRefusal(const absl::Status& status) const ABSL_LOCKS_EXCLUDED(metrics_mutex_);
  // As ModelMetrics::CountResumedTurn.
  void CountResumed(std::string_view how) const ABSL_LOCKS_EXCLUDED(metrics_mutex_);
  // As ModelMetrics::SetStoredSessions.
  void ShowStoredSessions(uint64_t sessions) const ABSL_LOCKS_EXCLUDED(metrics_mutex_);

  // Wakes the engine thread, so that it checks cancellations, input and readers now.
  void Wake();

  // Changes the budget for caches (BackendModel::SetBudget), and evicts idle sessions if they hold
  // more. `done` gets the result of the backend.
  void SetBudget(uint64_t cache_bytes_budget, Done done);
  // Caches that sessions have given up give their memory back to the system, if nobody has taken it
  // for some time (ls_backend.model_set_budget).
  void ReturnIdleMemory();
  // The same, but all of it and now. `done` is called then.
  void ReturnAllIdleMemory(std::function<void()> done);

  // Runs the work while there is no live work, after that of earlier calls. If the engine stops or
  // loses its device, the work is destroyed before it is done.
  void RunWhenIdle(std::unique_ptr<IdleWork> work);

  // Blocks until the work of all earlier calls is done. Must not be called from a callback.
  void Flush();

  // Refuses new turns from now on.
  void BeginDrain() { draining_.store(true); }
  // UNAVAILABLE: the engine is draining. FAILED_PRECONDITION: the model is being unloaded, or was
  // unloaded.
  absl::Status CheckOpen() const;
  // The number of turns that have been started and have not ended.
  size_t num_turns() const { return num_turns_.load(); }
  // Whether turns wait for memory.
  bool lacks_memory() const { return lacks_memory_.load(std::memory_order_relaxed); }
  // Ends every turn with `status`.
  void AbortAll(absl::Status status);
  // The readers of all turns get `status`. The turns go on without them.
  void DismissReaders(absl::Status status);

 private:
  void Run();
  // Runs the messages of other threads. False: the engine must stop.
  bool RunMailbox() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until the turns that have ended know whether they are durable. Called at the end.
  void AwaitJournals() ABSL_LOCKS_EXCLUDED(mutex_);
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
  // Posts the message of a turn. An error: the engine is stopping, so the turn would not run. The
  // error is that of CheckOpen, or UNAVAILABLE.
  absl::Status PostTurn(Message message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs the messages after Stop. One thread runs them at a time.
  void RunLate() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends everything that the engine thread has.
  void EndAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // A part of EndAll and GiveUp. Ends every turn with `why`, and drops idle_work_.
  void AbortNow(const absl::Status& why);

  absl::Status Enqueue(std::shared_ptr<Turn> turn, TurnLease lease);
  absl::Status EnqueueBackground(std::shared_ptr<Turn> turn, TurnLease lease);
  // Runs a step of turns in the background, if they may run now. False: there was nothing to do.
  bool StepBackground();
  // Tells the other engines whether this one has live work.
  void NoteLiveWork();
  // Other work takes `wanted` bytes: ends turns in the background if they hold too many
  // (BackgroundMayKeep).
  void TakeFromBackground(uint64_t wanted);

  // Makes caches for the session if it has none. CANCELLED: the session is closed. `reason`: the
  // label of evictions in the metrics, here and below.
  absl::Status MakeCaches(Session& session, const char* reason);
  absl::Status CopySession(TurnLease& source, TurnLease& target);
  // The copy was made, or was not: the target is open or closed. Drops both leases.
  void EndCopy(TurnLease& source, TurnLease& target, const absl::Status& status);
  // Copies the source, but gives the copy `state`.
  absl::Status CopySessionAt(TurnLease& source, TurnLease& target, SessionState state,
                             std::string reason);
  absl::Status AttachCaches(const std::shared_ptr<Session>& session, SnapshotImport import,
                            std::optional<std::string> other_kernels);
  // Copies the source's caches, if it has any.
  absl::Status CopyCaches(Session& source, Session& target);

  // A turn of the session has ended: keeps a return point, if the model needs one and there is free
  // memory for it.
  void KeepReturnPoint(const std::shared_ptr<Session>& session);
  // The session is at the end of a turn: saves its caches now or later. False: there is nothing to
  // save.
  bool BeginSave(const std::shared_ptr<Session>& session);
  // Counts the snapshot until Free.
  absl::StatusOr<Snapshot> MakeSnapshot(const Sequence& sequence, uint64_t from);
  // Begins to read the caches of an admitted turn from the store.
  void BeginRestore(ActiveTurn& turn);
  // `number`: of the restore. The turn may have ended meanwhile.
  void EndRestore(uint64_t number, const StoredCaches::Filled& filled);
  // Frees the memory of restores whose turns have ended.
  void DropRestores();
  // Turns that have waited for their caches for too long compute them.
  void EndSlowRestores();
  // The turn waits for memory again, before the turns of its priority that were not admitted yet.
  void WaitAgain(ActiveTurn& turn) ABSL_LOCKS_EXCLUDED(mutex_);
  // The caches of the session have changed, or those that it has in the store: says what its next
  // turn will read from there.
  void NoteStored(Session& session) const;
  // The costs of reading caches from the store and of computing them.
  RestoreCosts Costs() const { return {pipeline_.reading_times(), restore_speed_}; }
  // Frees return points, the oldest first, until `wanted` bytes are free or none is left.
  void MakeRoom(uint64_t wanted);
  // As MakeRoom, for all turns that wait.
  void MakeRoomForWaiting();
  // Returns false if there is none to free.
  bool FreeOldestReturnPoint();

  // The caches that could be evicted now.
  struct IdleCaches {
    std::vector<Session*> sessions;
    std::vector<EvictionCandidate> candidates;  // one for each session
    uint64_t bytes = 0;                         // what evicting all of them frees, or less
    uint64_t safe_bytes = 0;  // of sessions that can be evicted after Options::restored_safe
  };
  // Does not include `except`, which may be nullptr.
  IdleCaches FindIdle(const Session* except) const;
  // Whether caches that came back at this time are not evicted yet.
  bool IsSafe(MonotonicTime restored_at, MonotonicTime now) const {
    return now - restored_at < options_.restored_safe;
  }
  void Evict(Session& session, const char* reason);
  // Calls `attempt` when `wanted` bytes are free. Evicts idle sessions except `except` until it
  // returns another status than RESOURCE_EXHAUSTED, and returns that status. Evicts nothing if all
  // idle sessions together have too few bytes. RESOURCE_EXHAUSTED with an empty message: `attempt`
  // was not called.
  absl::Status WithRoom(uint64_t wanted, const Session* except, const char* reason,
                        absl::FunctionRef<absl::Status()> attempt);
  // As WithRoom, but calls `attempt` in any case, so that the backend names the missing bytes.
  absl::Status WithRoomOrReason(uint64_t wanted, const Session* except, const char* reason,
                                absl::FunctionRef<absl::Status()> attempt);
  void EvictToBudget();
  // Calls `fits`. Evicts idle sessions of the tenant, except `except`, until it returns true.
  // False: `more` bytes do not fit into the quota even then, and nothing was evicted.
  bool WithQuota(const Tenant* tenant, uint64_t more, const Session* except,
                 absl::FunctionRef<bool()> fits);
  // Counts `bytes` for caches, and evicts as WithQuota. RESOURCE_EXHAUSTED: as for
  // Tenant::RefuseCaches.
  absl::Status ChargeCaches(const std::shared_ptr<Tenant>& tenant, const Session* except,
                            CacheCharge& charge, uint64_t bytes);
  // Evicts idle sessions of tenants that hold more than their quota, because their part of the
  // host's memory has grown.
  void EvictToQuotas();
  void TakeInput(ActiveTurn& turn);

  // The parts of one round of the loop.
  //
  // Aborts turns whose deadline has passed or whose client has gone, and removes turns that have
  // ended.
  void EndAborted();
  void AbortDue(ActiveTurn& turn, MonotonicTime now);
  // Takes in the input of clients and decides, for each running turn, its part in the next step.
  // Ends turns whose client has been silent for too long. True: a turn has ended.
  bool LookAtRunning();
  // Admits turns from the front of the queue (AdmissionRound). True: an admitted turn has already
  // ended.
  bool AdmitWaiting() ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the places in the batch to turns that have something to compute (SharePlaces).
  void GivePlaces() ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells shares_ which tenants want more work than they get.
  void LevelShares();
  // False: there was nothing to do.
  bool Step();
  bool CanSetBudget() const;
  // Runs a piece of idle_work_. False: there is none, or there is live work here or elsewhere.
  bool RunIdleWork();
  void DropIdleWork();
  // A turn or a session needs memory.
  void YieldIdleWork();
  // The device of the model is lost.
  void GiveUp(const absl::Status& lost);

  absl::Status CheckDeadline(const Turn& turn) const;
  void PublishMetrics();

  // The types and functions below are parts of AdmitWaiting.
  enum class Admission { kAdmitted, kWaits, kRefused };
  Admission TryToAdmit(ActiveTurn& turn, AdmissionRound& round);
  // A part of TryToAdmit. Counts `bytes` for the turn's caches in the quota of its tenant, and
  // evicts as WithQuota. Absent: they are counted; otherwise the result of TryToAdmit.
  std::optional<Admission> TryQuota(ActiveTurn& turn, uint64_t bytes, AdmissionRound& round);
  // The caches of each tenant's open sessions.
  std::vector<AdmissionRound::TenantCaches> CountCaches() const;
  // A part of TryToAdmit, for a turn whose memory has been counted in the quota.
  Admission TryMemory(ActiveTurn& turn, AdmissionRound& round);
  // Brings the turns of tenants in waiting_ into the order in which they are looked at.
  void OrderWaiting();
  uint64_t FreeBytes() const;
  AdmissionBudget Budget() const;
  RunningTurns Running() const;
  // A part of GivePlaces. Tells EnterQueue how many turns have left the queue, how many running
  // turns compute, and how many of them hold or need a place.
  void PublishRoom(size_t computing, size_t need_place);

  const std::shared_ptr<ServedModel> model_;  // shared with callers that describe the model
  const Options options_;
  ModelMetrics* const metrics_;

  std::atomic<bool> draining_{false};
  std::atomic<bool> unloading_{false};
  std::atomic<size_t> num_turns_{0};
  std::atomic<bool> lacks_memory_{false};
  std::atomic<bool> has_background_{false};
  std::atomic<bool> has_idle_work_{false};
  const std::shared_ptr<LiveWork> live_work_;
  SharedPrefillSpeed prefill_speed_;
  WorkShares shares_;  // only the engine thread uses it, but for the weights, which do not change

  QueueRoom queue_;  // outlives the turns, also those in the mailbox

  absl::Mutex mutex_;
  std::vector<Message> mailbox_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status stop_reason_ ABSL_GUARDED_BY(mutex_);  // for the turns that Stop ends
  bool closes_model_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // messages run on the threads that post them
  bool runs_late_ ABSL_GUARDED_BY(mutex_) = false;

  // For calls of other threads. nullptr: Stop was called.
  mutable absl::Mutex metrics_mutex_;
  ModelMetrics* shared_metrics_ ABSL_GUARDED_BY(metrics_mutex_);

  // Only the engine thread uses these members.
  using Turns = StepPipeline::Turns;
  LiveWork::Part live_;  // of this engine; none while it has no live work
  Turns waiting_;        // ordered by priority, then arrival
  Turns running_;
  StepPipeline pipeline_;  // composes steps of the turns in running_ that hold a place
  BackgroundTurns background_;
  // When turns in the background may run; InfiniteFuture: nothing waits for a moment.
  MonotonicTime background_begins_ = MonotonicTime::InfiniteFuture();
  PlaceShares place_shares_;
  uint64_t place_changes_ = 0;     // PlaceCandidate::since of the last change
  MonotonicTime places_given_at_;  // when GivePlaces was called last
  ReaderWakes wakes_;
  std::vector<std::shared_ptr<Session>> open_sessions_;
  // The sessions of all return points that exist, by the numbers of the points.
  std::map<uint64_t, std::weak_ptr<Session>> return_points_;
  uint64_t next_return_point_ = 0;
  uint64_t snapshot_bytes_ = 0;  // of the pages that snapshots hold
  struct RestoringTurn {
    uint64_t number = 0;
    ActiveTurn* turn = nullptr;
    std::shared_ptr<CacheFill> fill;  // shared with the thread that reads
    MonotonicTime until;              // then the turn computes its caches
  };
  std::vector<RestoringTurn> restoring_;  // their caches are being read from the store
  uint64_t num_restores_ = 0;             // so far
  RestoreSpeed restore_speed_;
  MonotonicTime published_at_;  // when PublishMetrics was called last
  bool gave_up_ = false;
  bool has_ended_ = false;  // EndAll was called
  std::deque<std::unique_ptr<IdleWork>> idle_work_;
  // While pieces of idle_work_ run, one after the other.
  std::optional<LiveWork::Hold> idle_hold_;
  // When the next piece may run; InfiniteFuture: none waits for a moment.
  MonotonicTime idle_begins_ = MonotonicTime::InfiniteFuture();

  const LiveWork::Listener on_quiet_;
  std::thread thread_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_ENGINE_H_
