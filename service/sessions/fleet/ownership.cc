#include "service/sessions/fleet/ownership.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "service/sessions/fleet/mutations.h"

namespace longstream::fleet {

Ownership::Ownership(ReplicaName self, OwnershipOptions options)
    : self_(std::move(self)), options_(options) {}

Actions Ownership::Handle(const Event& event) {
  if (exited_) return {};
  std::visit([this](const auto& happened) { On(happened); }, event);
  if (draining_ && !exited_) OfferSessions();
  return std::exchange(actions_, {});
}

std::vector<CallId> Ownership::OpenCalls() const {
  std::vector<CallId> calls;
  for (const auto& [key, state] : sessions_) {
    if (state.now().call.has_value()) calls.push_back(*state.now().call);
    if (state.close.has_value()) calls.push_back(*state.close);
  }
  for (const auto& [relay, relayed] : relayed_) calls.push_back(relayed.call);
  return calls;
}

std::optional<CallId> Ownership::CallOfRelay(Number relay) const {
  const auto found = relayed_.find(relay);
  return found == relayed_.end() ? std::nullopt : std::optional<CallId>(found->second.call);
}

DrainProgress Ownership::Progress() const {
  const auto giving = static_cast<size_t>(giving_);
  return {to_offer_.size(), giving, static_cast<size_t>(busy_) - giving};
}

// ---------------------------------------------------------------- calls

void Ownership::On(const TurnArrives& event) {
  SessionState& state = State(event.session);
  if (HasTurn(state, event.turn)) {
    Join(state, event.call);
  } else {
    BeginForCall(state, Work::kTurn, event.call, event.turn);
  }
}

void Ownership::On(const ChangeArrives& event) {
  BeginForCall(State(event.session), Work::kChange, event.call, {});
}

void Ownership::BeginForCall(SessionState& state, Work work, CallId call, const TurnId& turn) {
  if (!Serving() || !IsFree(state)) {
    const bool turn_runs = state.work == Work::kTurn && Serving();
    actions_.emplace_back(EndCall{call, turn_runs ? Answer::kBusy : Answer::kNotNow, {}});
    if (state.phase == Phase::kFree) Finish(state);
    return;
  }
  Begin(state, work);
  state.job().turn = turn;
  state.job().call = call;
  if (state.owned && state.checked) {
    Continue(state);
  } else {
    Read(state);
  }
}

// A close does not move the session. It waits for work that cannot be interrupted.
void Ownership::On(const CloseArrives& event) {
  SessionState& state = State(event.session);
  if (state.close.has_value()) End(state.close, Answer::kBusy);
  state.close = event.call;
  if (IsFree(state)) {
    Finish(state);
  } else if (state.work == Work::kTurn &&
             (state.phase == Phase::kRunning || state.phase == Phase::kConfirming)) {
    StopRunning(state, Answer::kCancelled);
    EndWork(state, Answer::kCancelled);
  }
}

void Ownership::On(const SessionOpened& event) {
  SessionState& state = State(event.session);
  state.owned = state.copy = true;
  state.checked = lease_valid_;
  state.epoch = event.epoch;
  state.version = event.version;
  state.last_use = ++uses_;
  // A new session has not moved yet: the client may use it through another replica at once.
  state.may_leave = true;
}

void Ownership::On(const CopyEvicted& event) {
  SessionState* state = Find(event.session);
  if (state == nullptr || !IsFree(*state)) return;
  // The row still names this replica. It finds that out when it is asked for the session.
  state->copy = false;
  state->owned = state->undecided;
  Finish(*state);
}

// ---------------------------------------------------------------- rows

void Ownership::Read(SessionState& state) {
  SetPhase(state, Phase::kReading);
  AskForRow(state);
}

void Ownership::AskForRow(SessionState& state) {
  state.job().operation = Draw();
  const bool with_turn = state.work == Work::kTurn;
  actions_.emplace_back(
      ReadRow{state.key, state.job().operation,
              with_turn ? std::optional<TurnId>(state.job().turn) : std::optional<TurnId>()});
}

void Ownership::On(const RowRead& event) {
  SessionState* state = Find(event.session);
  if (state == nullptr || state->now().operation != event.operation) return;
  if (state->now().settling) {
    Settled(*state, event.row);
  } else if (state->phase == Phase::kConfirming) {
    Confirmed(*state, event.row);
  } else if (state->phase != Phase::kReading || state->job().waiting) {
    return;
  } else if (event.row.has_value()) {
    Use(*state, *event.row);
  } else if (state->work == Work::kCheck) {
    state->job().waiting = true;
    state->job().timer = StartTimer(state->key, TimerKind::kRetry);
  } else {
    EndWork(*state, Answer::kNotNow);
  }
}

// Compares what the replica believes with the row.
void Ownership::Believe(SessionState& state, const OwnedRow& row) {
  if (row.owner != self_) {
    if (!Mutated(Mutation::kTrustOldCopy)) Drop(state);
    state.owned = state.undecided = false;
    return;
  }
  const bool as_before = state.owned && state.epoch == row.epoch && state.version == row.version;
  if (!as_before && !Mutated(Mutation::kTrustOldCopy)) Drop(state);
  if (!as_before) {
    state.may_leave = true;
    state.undecided = false;
  }
  state.owned = true;
  state.checked = lease_valid_;
  state.epoch = row.epoch;
  state.version = row.version;
}

void Ownership::Use(SessionState& state, const OwnedRow& row) {
  if (!row.open) {
    Lose(state, Answer::kNotFound);
    return;
  }
  Believe(state, row);
  switch (state.work) {
    case Work::kTurn:
      UseForTurn(state, row);
      return;
    case Work::kChange:
      if (state.owned) {
        Continue(state);
      } else {
        Acquire(state, row);
      }
      return;
    case Work::kClose:
      state.job().peer = row.owner;
      state.job().transaction.fence = {state.key, row.epoch, row.version};
      Transact(state, TransactionKind::kClose);
      return;
    case Work::kFetch:
      if (state.owned) {
        Give(state);
      } else {
        EndWork(state, Answer::kMoved);
      }
      return;
    case Work::kNone:
    case Work::kCheck:
    case Work::kTake:
    case Work::kKeep:
    case Work::kOffer:
      Finish(state);
  }
}

void Ownership::UseForTurn(SessionState& state, const OwnedRow& row) {
  if (row.turn == TurnState::kCommitted ||
      (Mutated(Mutation::kReplayStarted) && row.turn.has_value())) {
    EndWork(state, Answer::kReplay);
    return;
  }
  const bool is_abandoned = row.turn == TurnState::kAbandoned;
  if ((is_abandoned && !Mutated(Mutation::kRunAbandoned)) || row.turn == TurnState::kCollected) {
    EndWork(state, Answer::kAbandoned);
    return;
  }
  state.job().turn_started = row.turn.has_value();
  if (state.owned) {
    Continue(state);
  } else {
    Acquire(state, row);
  }
}

// ---------------------------------------------------------------- turns

void Ownership::Continue(SessionState& state) {
  state.job().transaction.fence = {state.key, state.epoch, state.version};
  if (grace_over_ && !Mutated(Mutation::kRunAfterGrace)) {
    EndWork(state, Answer::kNotNow);
  } else if (state.undecided && !Mutated(Mutation::kForgetUndecided)) {
    FenceEarlierWork(state);
  } else if (state.work == Work::kChange) {
    Transact(state, TransactionKind::kChange);
  } else if (state.job().turn_started) {
    Run(state);
  } else {
    if (Mutated(Mutation::kShowBeforeStart)) Show(state);
    Transact(state, TransactionKind::kStart);
  }
}

void Ownership::Run(SessionState& state) {
  if (grace_over_ && !Mutated(Mutation::kRunAfterGrace)) {
    EndWork(state, Answer::kNotNow);
    return;
  }
  SetPhase(state, Phase::kRunning);
  state.job().operation = Draw();
  actions_.emplace_back(RunTurn{.session = state.key,
                                .operation = state.job().operation,
                                .turn = state.job().turn,
                                .restore = !state.copy,
                                .resume = state.job().turn_started});
  state.copy = true;
  Show(state);
}

void Ownership::Show(const SessionState& state) {
  if (state.now().call.has_value()) {
    actions_.emplace_back(ShowTurn{*state.now().call, state.key, state.now().turn});
  }
}

// The latest call that attaches to a turn has it.
void Ownership::Join(SessionState& state, CallId call) {
  End(state.job().call, Answer::kAttached);
  state.job().call = call;
  if (state.phase == Phase::kRunning || state.phase == Phase::kConfirming ||
      state.phase == Phase::kCommitting) {
    Show(state);
  }
}

void Ownership::On(const TurnRan& event) {
  SessionState* state = Find(event.session);
  if (state == nullptr || state->phase != Phase::kRunning ||
      state->job().operation != event.operation) {
    return;
  }
  if (event.end == TurnEnd::kFails) {
    EndWork(*state, Answer::kFailed);  // the engine has put the copy back to the head
    return;
  }
  state->job().transaction.fence = {state->key, state->epoch, state->version};
  if (event.end == TurnEnd::kAbandons) {
    Transact(*state, TransactionKind::kAbandon);
    return;
  }
  state->job().commit_timer = StartTimer(state->key, TimerKind::kCommit);
  if (Mutated(Mutation::kAnswerBeforeCommit)) End(state->job().call, Answer::kCommitted);
  if (state->checked) {
    Transact(*state, TransactionKind::kCommit);
    return;
  }
  SetPhase(*state, Phase::kConfirming);
  Settle(*state);
}

// ---------------------------------------------------------------- timers

void Ownership::On(const TimerFired& event) {
  SessionState* state = Find(event.session);
  if (state == nullptr) return;
  if (event.timer == state->residency_timer) {
    state->residency_timer = 0;
    state->may_leave = true;
  } else if (event.timer == state->now().commit_timer) {
    state->job().commit_timer = 0;
    End(state->job().call, Answer::kCommitWaits);
  }
  if (event.timer != state->now().timer) return;
  state->job().timer = 0;
  if (state->phase == Phase::kFetching) {
    EndWork(*state, Answer::kNotNow);
  } else if (state->phase == Phase::kReceiving) {
    Drop(*state);
    Transfer(*state);
  } else if (state->phase == Phase::kGiving) {
    Keep(*state);
  } else if (state->job().waiting) {
    state->job().waiting = false;
    if (state->phase == Phase::kReading) {
      Read(*state);
    } else if (state->phase == Phase::kConfirming) {
      Settle(*state);
    } else {
      TransactAgain(*state);
    }
  }
}

Number Ownership::StartTimer(const SessionKey& key, TimerKind kind) {
  const Number timer = Draw();
  actions_.emplace_back(SetTimer{key, timer, kind});
  return timer;
}

// ---------------------------------------------------------------- the end of work

void Ownership::End(std::optional<CallId>& call, Answer answer, ReplicaName owner) {
  if (call.has_value()) actions_.emplace_back(EndCall{*call, answer, std::move(owner)});
  call.reset();
}

void Ownership::StopRunning(SessionState& state, Answer why) {
  if (state.phase != Phase::kRunning && state.phase != Phase::kConfirming &&
      state.phase != Phase::kCommitting) {
    return;
  }
  actions_.emplace_back(StopTurn{state.key, why});
}

void Ownership::Drop(SessionState& state) {
  if (state.copy || state.phase == Phase::kReceiving) {
    actions_.emplace_back(DropCopy{state.key});
  }
  state.copy = false;
}

void Ownership::EndWork(SessionState& state, Answer answer) {
  const bool committed = answer == Answer::kCommitted || answer == Answer::kReplay;
  EndRelays(state, committed ? RelayEnd::kCommitted : RelayEnd::kLost);
  if (state.work == Work::kFetch) {
    const Refusal why = answer == Answer::kMoved || answer == Answer::kNotFound ? Refusal::kNotMine
                                                                                : Refusal::kNotYet;
    actions_.emplace_back(Send{state.job().peer, Refused{state.key, state.job().request, why}});
  } else if (state.work == Work::kTake && answer != Answer::kCommitted && !state.job().unknown) {
    actions_.emplace_back(
        Send{state.job().peer, Refused{state.key, state.job().request, Refusal::kNotTaken}});
  }
  // A copy that a peer has sent is of no use without the session.
  if (!state.owned && !Mutated(Mutation::kKeepCopyWhenFenced)) Drop(state);
  End(state.job().call, answer);
  Finish(state);
}

void Ownership::Lose(SessionState& state, Answer answer) {
  StopRunning(state, answer);
  if (!Mutated(Mutation::kKeepCopyWhenFenced)) {
    Drop(state);
    state.owned = false;
  }
  EndWork(state, answer);
}

void Ownership::Finish(SessionState& state) {
  state.work = Work::kNone;
  state.job_of_work.End();
  SetPhase(state, Phase::kFree);
  if (state.close.has_value()) {
    const std::optional<CallId> call = std::exchange(state.close, std::nullopt);
    Begin(state, Work::kClose);
    state.job().call = call;
    Read(state);
  } else if (!state.owned && !state.copy) {
    sessions_.erase(SessionKey(state.key));
  } else if (!state.checked && lease_valid_) {
    Check(state);
  } else if (draining_) {
    to_offer_.push_back(state.key);
  }
}

// ---------------------------------------------------------------- states

SessionState& Ownership::State(const SessionKey& key) {
  SessionState& state = sessions_[key];
  state.key = key;
  return state;
}

SessionState* Ownership::Find(const SessionKey& key) {
  const auto found = sessions_.find(key);
  return found == sessions_.end() ? nullptr : &found->second;
}

bool Ownership::IsFree(const SessionState& state) {
  return state.phase == Phase::kFree || state.work == Work::kCheck;
}

bool Ownership::HasTurn(const SessionState& state, const TurnId& turn) {
  return state.work == Work::kTurn && state.now().turn == turn;
}

void Ownership::Begin(SessionState& state, Work work) {
  state.work = work;
  state.job_of_work.End();
  state.last_use = ++uses_;
}

void Ownership::SetPhase(SessionState& state, Phase phase) {
  busy_ += (phase != Phase::kFree ? 1 : 0) - (state.phase != Phase::kFree ? 1 : 0);
  giving_ += (phase == Phase::kGiving ? 1 : 0) - (state.phase == Phase::kGiving ? 1 : 0);
  state.phase = phase;
}

}  // namespace longstream::fleet
