// The engine's loop: messages, aborted turns, admission, a step.
#include "service/scheduler/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

// How often the loop looks at gauges and deadlines when nothing happens.
constexpr absl::Duration kIdlePeriod = absl::Milliseconds(500);

}  // namespace

Engine::Engine(std::shared_ptr<ServedModel> model, const Options& options, ModelMetrics* metrics)
    : model_(std::move(model)), options_(options), metrics_(metrics), thread_([this] { Run(); }) {}

Engine::~Engine() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

// ---------------------------------------------------------------- called from any thread

void Engine::Post(std::function<void()> message) {
  absl::MutexLock lock(&mutex_);
  mailbox_.push_back(std::move(message));
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

void Engine::Open(std::shared_ptr<Session> session, Done done) {
  Post([this, session = std::move(session), done = std::move(done)] {
    absl::StatusOr<Sequence> sequence = model_->backend().CreateSequence();
    const absl::Status status = sequence.status();
    if (status.ok()) {
      session->sequence = *std::move(sequence);
      session->Publish();
      open_sessions_.push_back(session);
    }
    done(status);
  });
}

void Engine::Fork(std::shared_ptr<Session> source, std::shared_ptr<Session> target, Done done) {
  Post([this, source = std::move(source), target = std::move(target), done = std::move(done)] {
    absl::StatusOr<Sequence> sequence = model_->backend().ForkSequence(source->sequence);
    const absl::Status status = sequence.status();
    if (status.ok()) {
      target->tokens = source->tokens;
      target->generated = source->generated;
      target->computed_tokens = source->computed_tokens;
      target->recompute_reason = source->recompute_reason;
      target->sequence = *std::move(sequence);
      target->Publish();
      open_sessions_.push_back(target);
    }
    source->EndTurn();
    done(status);
  });
}

void Engine::Close(std::shared_ptr<Session> session, Closed closed) {
  Post([this, session = std::move(session), closed = std::move(closed)] {
    for (auto* turns : {&waiting_, &running_}) {
      for (const std::unique_ptr<ActiveTurn>& turn : *turns) {
        if (&turn->session() == session.get()) {
          turn->Abort(absl::CancelledError("the session was closed"));
        }
      }
    }
    const uint64_t position = session->tokens.size();
    session->sequence = Sequence();
    std::erase(open_sessions_, session);
    closed(position);
  });
}

absl::Status Engine::CheckDeadline(const Turn& turn) const {
  const absl::Duration left = turn.request.deadline - absl::Now();
  const absl::Duration needed =
      absl::Seconds(seconds_per_prompt_token_.load(std::memory_order_relaxed) *
                    static_cast<double>(turn.request.prompt.size()));
  if (left > absl::ZeroDuration() && left >= needed) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline is in ", absl::FormatDuration(std::max(left, absl::ZeroDuration())),
      ", reading the prompt of ", turn.request.prompt.size(), " tokens alone takes ",
      absl::FormatDuration(needed)));
}

absl::Status Engine::Start(std::shared_ptr<Turn> turn) {
  absl::Status status = Enqueue(std::move(turn));
  if (!status.ok()) metrics_->CountRequest(absl::StatusCodeToString(status.code()), "");
  return status;
}

absl::Status Engine::Enqueue(std::shared_ptr<Turn> turn) {
  if (draining_.load()) return absl::UnavailableError("the server is draining");
  if (absl::Status status = CheckDeadline(*turn); !status.ok()) return status;
  if (num_turns_.fetch_add(1) >= options_.max_waiting_turns + options_.max_batch_sequences) {
    num_turns_.fetch_sub(1);
    return absl::ResourceExhaustedError(absl::StrCat(
        "model ", model_->name(), ": ", options_.max_batch_sequences, " turns are running and ",
        options_.max_waiting_turns, " wait, the limit of the queue"));
  }
  if (turn->request.session != nullptr) {
    absl::Status status = turn->request.session->BeginTurn(turn->request.expected_position);
    if (!status.ok()) {
      num_turns_.fetch_sub(1);
      return status;
    }
  }
  turn->stream.SetWriter(options_.stream_buffer_bytes, [this] { Wake(); });
  Post([this, turn = std::move(turn)] {
    auto active = std::make_unique<ActiveTurn>(turn, model_.get(), metrics_);
    const auto after = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) {
      return other->turn().request.priority < turn->request.priority;
    });
    waiting_.insert(after, std::move(active));
  });
  return absl::OkStatus();
}

void Engine::AbortAll(absl::Status status) {
  Post([this, status = std::move(status)] {
    for (auto* turns : {&waiting_, &running_}) {
      for (const std::unique_ptr<ActiveTurn>& turn : *turns) turn->Abort(status);
    }
  });
}

// ---------------------------------------------------------------- the engine thread

void Engine::Run() {
  while (RunMailbox()) {
    EndAborted();
    AdmitWaiting();
    const bool stepped = Step();
    PublishMetrics();
    if (!stepped) Sleep();
  }
  for (auto* turns : {&waiting_, &running_}) {
    for (const std::unique_ptr<ActiveTurn>& turn : *turns) {
      turn->Abort(absl::UnavailableError("the server is shutting down"));
    }
    turns->clear();
  }
  for (const std::shared_ptr<Session>& session : open_sessions_) {
    session->Close();
    session->sequence = Sequence();
  }
}

bool Engine::RunMailbox() {
  std::vector<std::function<void()>> messages;
  bool stopping;
  {
    absl::MutexLock lock(&mutex_);
    messages.swap(mailbox_);
    woken_ = false;
    stopping = stopping_;
  }
  for (const std::function<void()>& message : messages) message();
  return !stopping;
}

void Engine::Sleep() {
  absl::Time until = absl::Now() + kIdlePeriod;
  for (const auto* turns : {&waiting_, &running_}) {
    for (const std::unique_ptr<ActiveTurn>& turn : *turns) {
      until = std::min(until, turn->turn().request.deadline);
    }
  }
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(
                               +[](Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine->mutex_) {
                                 return engine->woken_ || engine->stopping_ ||
                                        !engine->mailbox_.empty();
                               },
                               this),
                           until);
}

void Engine::EndAborted() {
  const absl::Time now = absl::Now();
  for (auto* turns : {&waiting_, &running_}) {
    for (auto it = turns->begin(); it != turns->end();) {
      ActiveTurn& active = **it;
      if (!active.ended() && active.turn().cancelled()) {
        active.Abort(absl::CancelledError("the caller cancelled the turn"));
      } else if (!active.ended() && now >= active.turn().request.deadline) {
        active.Abort(absl::DeadlineExceededError("the deadline passed during the turn"));
      }
      if (active.ended()) {
        num_turns_.fetch_sub(1);
        it = turns->erase(it);
      } else {
        ++it;
      }
    }
  }
}

void Engine::AdmitWaiting() {
  while (!waiting_.empty() && running_.size() < options_.max_batch_sequences) {
    ActiveTurn& next = *waiting_.front();
    const absl::Status status = next.Admit(absl::Now());
    if (status.ok()) {
      running_.splice(running_.end(), waiting_, waiting_.begin());
      continue;
    }
    // What running turns have reserved and not used comes back when they end.
    if (absl::IsResourceExhausted(status) && !running_.empty()) return;
    next.Abort(status);
    num_turns_.fetch_sub(1);
    waiting_.pop_front();
  }
}

bool Engine::Step() {
  std::vector<ActiveTurn*> turns;
  std::vector<StepCandidate> candidates;
  bool any_ended = false;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    turn->TakeInput();
    any_ended |= turn->ended();
    if (std::optional<StepCandidate> candidate = turn->Candidate()) {
      turns.push_back(turn.get());
      candidates.push_back(*candidate);
    }
  }
  const StepLimits limits{options_.max_batch_tokens, options_.max_batch_sequences,
                          model_->backend().info().prefill_grid};
  const std::vector<StepPiece> plan = PlanStep(candidates, limits);
  if (plan.empty()) return any_ended;

  std::vector<ls_batch_entry> entries;
  uint64_t prefill_tokens = 0;
  for (const StepPiece& piece : plan) {
    entries.push_back(turns[piece.candidate]->Entry(piece.num_tokens));
    if (!candidates[piece.candidate].is_decode) prefill_tokens += piece.num_tokens;
  }
  ++step_number_;
  const absl::Time begin = absl::Now();
  absl::StatusOr<uint64_t> ticket = model_->backend().Submit(entries);
  absl::StatusOr<std::span<const ls_result>> results =
      ticket.ok() ? model_->backend().Wait(*ticket)
                  : absl::StatusOr<std::span<const ls_result>>(ticket.status());
  const absl::Time now = absl::Now();
  LearnSpeed(prefill_tokens, now - begin);
  for (size_t i = 0; i < plan.size(); ++i) {
    ActiveTurn& turn = *turns[plan[i].candidate];
    if (results.ok() && i < results->size()) {
      turn.Absorb((*results)[i], plan[i].num_tokens, step_number_, now);
    } else {
      turn.Abort(absl::InternalError(
          absl::StrCat("the backend failed a step: ",
                       results.ok() ? "results are missing" : results.status().message())));
    }
  }
  return true;
}

void Engine::LearnSpeed(uint64_t prefill_tokens, absl::Duration step_time) {
  // Only large pieces tell the cost per token; the fastest seen, slowly forgotten, is a lower
  // bound.
  if (prefill_tokens < model_->backend().info().prefill_grid) return;
  const double seconds = absl::ToDoubleSeconds(step_time) / static_cast<double>(prefill_tokens);
  const double known = seconds_per_prompt_token_.load(std::memory_order_relaxed);
  const double bound = known == 0.0 ? seconds : std::min(seconds, known * 1.01);
  seconds_per_prompt_token_.store(bound, std::memory_order_relaxed);
}

void Engine::PublishMetrics() {
  const ls_memory memory = model_->backend().memory();
  metrics_->SetMemory({memory.weights, memory.pages, memory.rings, memory.states,
                       memory.checkpoints, memory.workspace, memory.budget});
  metrics_->SetRequests(running_.size(), waiting_.size());
  size_t active = 0;
  size_t queued_bytes = 0;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    active += turn->turn().request.session != nullptr;
    queued_bytes += turn->turn().stream.queued_bytes();
  }
  metrics_->SetSessions(active, open_sessions_.size() - std::min(active, open_sessions_.size()));
  metrics_->SetStreamQueuedBytes(queued_bytes);
}

}  // namespace longstream
