// The loop of the engine. Each round runs messages, ends aborted turns, admits turns, gives places
// in the batch, and runs a step.
#include "service/engine/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/logits/step_rows.h"
#include "service/engine/policy/turn_demand.h"
#include "service/engine/turn/prompt_check.h"
#include "service/engine/turn/turn_history.h"

namespace longstream {
namespace {

// When nothing happens, the loop updates gauges and checks deadlines at this interval.
constexpr absl::Duration kIdlePeriod = absl::Milliseconds(500);

// While steps run, the loop updates gauges at this interval.
constexpr absl::Duration kPublishPeriod = absl::Milliseconds(10);

// GatherTurns pauses to wait for a message. One pause is 1 / kGatheringPart of the time that
// reading the prompts takes, at most kMostGatheringPause. When a message arrives, a new pause
// starts. All pauses together last at most kGatheringPauses times one pause.
constexpr int kGatheringPart = 32;
constexpr absl::Duration kMostGatheringPause = absl::Milliseconds(1);
constexpr int kGatheringPauses = 4;
// GatherTurns skips a pause that is shorter than this.
constexpr absl::Duration kLeastGatheringPause = absl::Microseconds(50);

StepLimits Limits(const Engine::Options& options, const BackendModel& backend) {
  const ls_model_info& info = backend.info();
  return {.max_tokens = options.max_batch_tokens,
          .max_sequences = options.max_batch_sequences,
          .max_logit_rows = MostLogitRows(info.vocabulary_size, info.prefill_grid),
          .prefill_grid = info.prefill_grid};
}

std::vector<double> WeightsOf(const std::vector<std::shared_ptr<Tenant>>& tenants) {
  std::vector<double> weights;
  weights.reserve(tenants.size());
  for (const std::shared_ptr<Tenant>& tenant : tenants) weights.push_back(tenant->weight());
  return weights;
}

// The turns that each tenant may have in a queue of `most`, whatever others do. 0: there is one
// tenant, which has the whole queue.
std::vector<size_t> PartsOf(const WorkShares& shares, size_t most) {
  std::vector<size_t> parts(shares.weights().size());
  if (!shares.are_shared()) return parts;
  for (size_t tenant = 0; tenant < parts.size(); ++tenant) {
    parts[tenant] = shares.PartOf(tenant, most);
  }
  return parts;
}

size_t MostInFlight(const Engine::Options& options, const BackendModel& backend) {
  return backend.CanLookAhead() ? std::min<size_t>(options.max_steps_in_flight, 2) : 1;
}

// When the turn arrived that has waited longest, in seconds since 1970; 0: none waits.
double OldestArrival(const StepPipeline::Turns& waiting, MonotonicTime now) {
  if (waiting.empty()) return 0;
  MonotonicTime oldest = now;
  for (const auto& turn : waiting) oldest = std::min(oldest, turn->turn().arrival);
  return absl::ToDoubleSeconds(absl::Now() - (now - oldest) - absl::UnixEpoch());
}

// Why a turn ends whose session was closed. It may have been cancelled before.
absl::Status WhyClosed(const Turn& turn) {
  absl::Status reason = turn.cancel_reason();
  return reason.ok() ? absl::CancelledError("the session was closed") : reason;
}

}  // namespace

Engine::Engine(std::shared_ptr<ServedModel> model, const Options& options, ModelMetrics* metrics)
    : model_(std::move(model)),
      options_(options),
      metrics_(metrics),
      live_work_(options.live_work != nullptr ? options.live_work : std::make_shared<LiveWork>()),
      shares_(WeightsOf(options.tenants)),
      queue_(options.max_waiting_turns,
             std::min<size_t>(options.max_batch_sequences, options.max_open_turns),
             PartsOf(shares_, options.max_waiting_turns)),
      shared_metrics_(metrics),
      pipeline_(model_->backend(), Limits(options, model_->backend()), options.max_decode_stretch,
                MostInFlight(options, model_->backend()), &prefill_speed_, &shares_),
      background_(model_.get(), Limits(options, model_->backend()), options.background_step,
                  options_.on_failure),
      wakes_(options.executor),
      on_quiet_(live_work_,
                [this] {
                  if (has_background_.load() || has_idle_work_.load()) Wake();
                }),
      thread_([this] { Run(); }) {}

// ---------------------------------------------------------------- called from any thread

void Engine::Post(Message message) {
  {
    absl::MutexLock lock(&mutex_);
    mailbox_.push_back(std::move(message));
    if (!stopped_ || std::exchange(runs_late_, true)) return;
  }
  RunLate();
}

absl::Status Engine::PostTurn(Message message) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) {
      mailbox_.push_back(std::move(message));
      return absl::OkStatus();
    }
  }
  absl::Status status = CheckOpen();
  return status.ok() ? absl::UnavailableError("the server is shutting down") : status;
}

void Engine::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

void Engine::Flush() {
  absl::Notification done;
  Post([&done] { done.Notify(); });
  done.WaitForNotification();
}

void Engine::Open(TurnLease session, Done done) {
  Post([this, lease = std::move(session), done = std::move(done)]() mutable {
    const absl::Status status = MakeCaches(*lease.session(), "open");
    if (status.ok()) {
      open_sessions_.push_back(lease.session());
    } else {
      lease.session()->Close();
    }
    lease.Publish();
    lease.Drop();
    done(status);
  });
}

void Engine::Fork(TurnLease source, TurnLease target, Done done) {
  Post([this, from = std::move(source), to = std::move(target), done = std::move(done)]() mutable {
    const absl::Status status = CopySession(from, to);
    EndCopy(from, to, status);
    done(status);
  });
}

void Engine::EndCopy(TurnLease& source, TurnLease& target, const absl::Status& status) {
  if (status.ok()) {
    open_sessions_.push_back(target.session());
  } else {
    target.session()->Close();
  }
  for (TurnLease* lease : {&target, &source}) {
    lease->Publish();
    lease->Drop();
  }
}

void Engine::Release(TurnLease session, std::function<void(TurnLease)> released) {
  Post([this, lease = std::move(session), released = std::move(released)]() mutable {
    // The turn that gave the lease back keeps a return point now: later the session may be another
    // engine's.
    EndAborted();
    Session& given = *lease.session();
    SessionCaches& caches = given.caches();
    if (caches.sequence.valid()) {
      caches.lowest_rewind = std::max(caches.lowest_rewind, LowestRewind(caches.sequence));
    }
    caches.Free();
    caches.evicted = true;
    given.ChargeCaches();
    NoteStored(given);
    std::erase(open_sessions_, lease.session());
    released(std::move(lease));
  });
}

void Engine::Adopt(std::shared_ptr<Session> session) {
  Post([this, session = std::move(session)]() mutable {
    if (!session->closed() && !model_->backend().closed()) {
      open_sessions_.push_back(std::move(session));
    }
  });
}

void Engine::Close(std::shared_ptr<Session> session, Closed closed) {
  Post([this, session = std::move(session), closed = std::move(closed)]() mutable {
    bool in_flight = false;
    for (auto* turns : {&waiting_, &running_}) {
      for (const std::unique_ptr<ActiveTurn>& turn : *turns) {
        if (turn->ended() || &turn->session() != session.get()) continue;
        turn->Abort(WhyClosed(turn->turn()));
        in_flight |= !turn->ended();
      }
    }
    if (in_flight) pipeline_.Drain();
    DropRestores();
    const uint64_t position = session->View().position;
    session->caches().Free();
    session->ChargeCaches();
    std::erase(open_sessions_, session);
    // The caller learns of the end when the memory on the host is free, too.
    session.reset();
    closed(position);
  });
}

void Engine::SetBudget(uint64_t cache_bytes_budget, Done done) {
  Post([this, cache_bytes_budget, done = std::move(done)] {
    const absl::Status status = model_->backend().SetBudget(cache_bytes_budget);
    EvictToBudget();
    done(status);
  });
}

void Engine::ReturnIdleMemory() {
  Post([this] {
    if (!CanSetBudget()) return;
    BackendModel& backend = model_->backend();
    backend.SetBudget(backend.memory().budget).IgnoreError();
  });
}

void Engine::ReturnAllIdleMemory(std::function<void()> done) {
  Post([this, done = std::move(done)] {
    if (CanSetBudget()) {
      // A backend keeps no idle memory beyond its budget.
      BackendModel& backend = model_->backend();
      const ls_memory memory = backend.memory();
      const uint64_t least = TurnDemand::Held(backend.info(), 1);
      backend.SetBudget(std::max<uint64_t>(memory.reserved, least)).IgnoreError();
      backend.SetBudget(memory.budget).IgnoreError();
    }
    done();
  });
}

bool Engine::CanSetBudget() const {
  const BackendModel& backend = model_->backend();
  return !backend.closed() && pipeline_.lost().ok() && backend.plugin().Can(LS_CAP_SET_BUDGET);
}

absl::Status Engine::CheckDeadline(const Turn& turn) const {
  const MonotonicTime now = MonotonicTime::Now();
  const absl::Duration left = turn.request.deadline - now;
  const absl::Duration needed = prefill_speed_.TimeFor(turn.request.prompt.size(), now);
  if (left > absl::ZeroDuration() && left >= needed) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline is in ", absl::FormatDuration(std::max(left, absl::ZeroDuration())),
      ", reading the prompt of ", turn.request.prompt.size(), " tokens alone takes ",
      absl::FormatDuration(needed)));
}

absl::Status Engine::Start(std::shared_ptr<Turn> turn, TurnLease lease) {
  const bool is_background = turn->request.background;
  absl::Status status = Enqueue(std::move(turn), std::move(lease));
  if (!status.ok() && !is_background) CountRefusal(status);
  return status;
}

absl::Status Engine::Enqueue(std::shared_ptr<Turn> turn, TurnLease lease) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (absl::Status status = CheckPrompt(turn->request, lease); !status.ok()) return status;
  if (turn->request.background) return EnqueueBackground(std::move(turn), std::move(lease));
  if (absl::Status status = CheckDeadline(*turn); !status.ok()) return status;
  std::unique_ptr<QueueRoom::Slot> slot = queue_.TryEnter(lease.session()->tenant_index());
  if (slot == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "model ", model_->name(), ": the queue has no room for another turn; it holds at most ",
        options_.max_waiting_turns));
  }
  num_turns_.fetch_add(1);
  turn->stream.SetWriter(
      options_.stream_buffer_bytes, [this] { Wake(); }, &wakes_);
  absl::Status posted = PostTurn([this, turn = std::move(turn), lease = std::move(lease),
                                  slot = std::move(slot), live = live_work_->Begin()]() mutable {
    if (!live_) live_ = std::move(live);
    auto active = std::make_unique<ActiveTurn>(turn, std::move(lease), std::move(slot),
                                               model_.get(), metrics_, options_.on_failure);
    if (active->session().closed()) {
      active->Abort(WhyClosed(active->turn()));
    }
    const auto after = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) {
      return other->turn().request.priority < turn->request.priority;
    });
    waiting_.insert(after, std::move(active));
  });
  if (!posted.ok()) num_turns_.fetch_sub(1);
  return posted;
}

void Engine::AbortAll(absl::Status status) {
  Post([this, status = std::move(status)] {
    for (auto* turns : {&waiting_, &running_}) {
      for (const std::unique_ptr<ActiveTurn>& turn : *turns) turn->Abort(status);
    }
  });
}

void Engine::DismissReaders(absl::Status status) {
  Post([this, status = std::move(status)] {
    for (auto* turns : {&waiting_, &running_}) {
      for (const std::unique_ptr<ActiveTurn>& turn : *turns) turn->DismissReader(status);
    }
  });
}

// ---------------------------------------------------------------- the engine thread

void Engine::Run() {
  bool has_slept = true;
  while (RunMailbox()) {
    EndAborted();
    EndSlowRestores();
    bool any_ended = LookAtRunning();
    any_ended |= AdmitWaiting();
    GivePlaces();
    LevelShares();
    wakes_.Run();  // readers get the drawn tokens before the next step
    NoteLiveWork();
    if (std::exchange(has_slept, false) && GatherTurns()) continue;
    const bool stepped = Step() || RunIdleWork();
    // Turns that arrive during a step in the background are gathered as after a sleep.
    has_slept = !stepped && StepBackground();
    wakes_.Run();
    const bool sleeps = !stepped && !has_slept && !any_ended;
    if (sleeps || MonotonicTime::Now() - published_at_ >= kPublishPeriod) {
      EvictToQuotas();
      PublishMetrics();
    }
    if (sleeps) {
      Sleep();
      has_slept = true;
    }
  }
  EndAll();
}

bool Engine::RunMailbox() {
  std::vector<Message> messages;
  bool stopping;
  {
    absl::MutexLock lock(&mutex_);
    messages.swap(mailbox_);
    woken_ = false;
    stopping = stopping_;
  }
  for (Message& message : messages) message();
  return !stopping;
}

void Engine::Sleep() {
  MonotonicTime until = MonotonicTime::Now() + kIdlePeriod;
  for (const auto* turns : {&waiting_, &running_}) {
    for (const std::unique_ptr<ActiveTurn>& turn : *turns) {
      until = std::min({until, turn->turn().request.deadline, turn->turn().forsaken_at()});
    }
  }
  for (const RestoringTurn& restoring : restoring_) until = std::min(until, restoring.until);
  until = std::min({until, background_begins_, idle_begins_});
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(
                              +[](Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine->mutex_) {
                                return engine->woken_ || engine->stopping_ ||
                                       !engine->mailbox_.empty();
                              },
                              this),
                          until - MonotonicTime::Now());
}

bool Engine::GatherTurns() {
  const absl::Duration pause =
      std::min(pipeline_.PromptTime(running_) / kGatheringPart, kMostGatheringPause);
  if (pause < kLeastGatheringPause) return false;
  const MonotonicTime until = MonotonicTime::Now() + kGatheringPauses * pause;
  absl::MutexLock lock(&mutex_);
  for (bool more = true; more && !woken_ && !stopping_;) {
    const absl::Duration left = until - MonotonicTime::Now();
    if (left <= absl::ZeroDuration()) break;
    const size_t before = mailbox_.size();
    const auto news = [this, before]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return woken_ || stopping_ || mailbox_.size() > before;
    };
    more = mutex_.AwaitWithTimeout(absl::Condition(&news), std::min(pause, left));
  }
  return woken_ || stopping_ || !mailbox_.empty();
}

void Engine::AbortDue(ActiveTurn& active, MonotonicTime now) {
  if (active.ended()) return;
  // gRPC cancels a call whose deadline has passed. Check the deadline first, so that the turn ends
  // with DEADLINE_EXCEEDED and not with CANCELLED.
  if (now >= active.turn().request.deadline) {
    active.Abort(absl::DeadlineExceededError("the deadline passed during the turn"));
  } else if (active.turn().cancelled()) {
    active.Abort(active.turn().cancel_reason());
  } else if (now >= active.turn().forsaken_at()) {
    active.Abort(absl::CancelledError("no client has read the turn for sessions.resume_window"));
  }
}

void Engine::EndAborted() {
  const MonotonicTime now = MonotonicTime::Now();
  for (auto* turns : {&waiting_, &running_}) {
    for (const std::unique_ptr<ActiveTurn>& active : *turns) AbortDue(*active, now);
  }
  background_.EndDue(now);
  DropRestores();
  for (auto* turns : {&waiting_, &running_}) {
    for (auto it = turns->begin(); it != turns->end();) {
      ActiveTurn& active = **it;
      if (active.concluding()) active.TryToFinish();
      if (active.ended()) {
        num_turns_.fetch_sub(1);
        if (const auto session = active.kept_session().lock()) {
          KeepReturnPoint(session);
          BeginSave(session);
        }
        it = turns->erase(it);
      } else {
        ++it;
      }
    }
  }
}

bool Engine::LookAtRunning() {
  const MonotonicTime now = MonotonicTime::Now();
  bool any_ended = false;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    if (turn->is_parked()) continue;
    TakeInput(*turn);
    turn->Look();
    if (turn->ClientSilence(now) > options_.client_timeout) {
      turn->Abort(absl::DeadlineExceededError(absl::StrCat(
          "the client has neither read nor sent anything for ",
          absl::FormatDuration(options_.client_timeout), ", scheduler.client_timeout")));
    }
    any_ended |= turn->ended();
  }
  return any_ended;
}

bool Engine::Step() {
  const bool advanced = pipeline_.Advance(running_);
  if (!pipeline_.lost().ok()) GiveUp(pipeline_.lost());
  return advanced;
}

void Engine::GiveUp(const absl::Status& lost) {
  if (std::exchange(gave_up_, true)) return;
  AbortNow(lost);
  if (options_.on_lost) options_.on_lost(lost);
}

void Engine::PublishMetrics() {
  published_at_ = MonotonicTime::Now();
  const ls_memory memory = model_->backend().memory();
  const ls_model_info& info = model_->backend().info();
  const uint64_t rings = return_points_.size() * info.window_bytes_per_sequence;
  const uint64_t states = return_points_.size() * info.state_bytes_per_sequence;
  metrics_->SetMemory({memory.weights, memory.pages, memory.rings - std::min(memory.rings, rings),
                       memory.states - std::min(memory.states, states), memory.checkpoints,
                       memory.workspace, memory.budget, rings + states});
  size_t parked = 0;
  size_t active = 0;
  size_t queued_bytes = 0;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    parked += turn->place().awaited();
    active += !turn->turn().request.has_own_session();
    queued_bytes += turn->turn().stream.queued_bytes();
  }
  metrics_->SetRequests(running_.size(), waiting_.size(), parked);
  metrics_->SetOldestWaiting(OldestArrival(waiting_, published_at_));
  metrics_->SetSessions(active, open_sessions_.size() - std::min(active, open_sessions_.size()));
  metrics_->SetStreamQueuedBytes(queued_bytes);
}

}  // namespace longstream
