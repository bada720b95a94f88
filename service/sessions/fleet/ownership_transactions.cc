// The transactions of a replica. Their outcomes may be unknown: then the row says what happened.
#include <optional>

#include "service/sessions/fleet/mutations.h"
#include "service/sessions/fleet/ownership.h"

namespace longstream::fleet {

namespace {

// How often a transaction other than a commit is tried.
constexpr int kMaxAttempts = 8;

Phase PhaseOf(TransactionKind kind) {
  switch (kind) {
    case TransactionKind::kClaim:
      return Phase::kClaiming;
    case TransactionKind::kTransfer:
      return Phase::kTransferring;
    case TransactionKind::kStart:
      return Phase::kStarting;
    case TransactionKind::kCommit:
      return Phase::kCommitting;
    case TransactionKind::kAbandon:
    case TransactionKind::kChange:
      return Phase::kChanging;
    case TransactionKind::kClose:
      break;
  }
  return Phase::kClosing;
}

bool IsTransacting(Phase phase) {
  return phase == Phase::kClaiming || phase == Phase::kTransferring || phase == Phase::kStarting ||
         phase == Phase::kCommitting || phase == Phase::kChanging || phase == Phase::kClosing;
}

// These are tried until their outcome is known. Others may be given up: what a late transaction
// does is found out when the row is read for the next use of the session.
bool MustBeDecided(const SessionState& state) {
  return state.phase == Phase::kCommitting || state.phase == Phase::kConfirming ||
         state.work == Work::kKeep;
}

bool NamesTurn(TransactionKind kind) {
  return kind == TransactionKind::kStart || kind == TransactionKind::kCommit ||
         kind == TransactionKind::kAbandon;
}

bool ChangesOwner(TransactionKind kind) {
  return kind == TransactionKind::kClaim || kind == TransactionKind::kTransfer;
}

}  // namespace

// Makes a transaction that expects the fence in the job's transaction.
void Ownership::Transact(SessionState& state, TransactionKind kind) {
  state.job().transaction.kind = kind;
  state.job().transaction.turn = NamesTurn(kind) ? state.job().turn : TurnId{};
  state.job().transaction.owner = ChangesOwner(kind) ? self_ : ReplicaName{};
  state.job().unknown = false;
  SetPhase(state, PhaseOf(kind));
  TransactAgain(state);
}

void Ownership::TransactAgain(SessionState& state) {
  state.job().settling = state.job().waiting = false;
  state.job().timer = 0;
  state.job().operation = Draw();
  actions_.emplace_back(fleet::Transact{state.job().operation, state.job().transaction});
}

void Ownership::On(const Transacted& event) {
  SessionState* state = Find(event.session);
  if (state == nullptr || state->now().operation != event.operation || state->now().settling ||
      state->now().waiting || !IsTransacting(state->phase)) {
    return;
  }
  const bool is_commit = state->job().transaction.kind == TransactionKind::kCommit;
  const bool is_keep = state->work == Work::kKeep;
  switch (event.outcome) {
    case Outcome::kMade:
      Made(*state);
      return;
    case Outcome::kUnknown:
      if (is_commit && Mutated(Mutation::kUnknownIsMade)) {
        Made(*state);
        return;
      }
      state->job().unknown = true;
      Settle(*state);
      return;
    case Outcome::kUnavailable:
      if (is_commit || is_keep || state->job().unknown) {
        RetryLater(*state);
        return;
      }
      break;
    case Outcome::kFull:
    case Outcome::kRefused:
      if (is_keep || state->job().unknown) {  // an earlier attempt may still be made
        RetryLater(*state);
        return;
      }
      break;
    case Outcome::kFenced:
      if (is_commit && Mutated(Mutation::kFenceAnew)) state->job().unknown = true;
      [[fallthrough]];
    case Outcome::kTurnExists:
    case Outcome::kNotAllowed:
      if (is_keep && event.outcome == Outcome::kNotAllowed) {  // until the lease is renewed
        RetryLater(*state);
        return;
      }
      if (state->job().unknown) {  // perhaps by the earlier attempt
        Settle(*state);
        return;
      }
      break;
  }
  NotMade(*state, event.outcome);
}

// A claim or a transfer has no holder, so it is never withdrawn.
void Ownership::On(const Withdrawn& event) {
  SessionState* state = Find(event.session);
  if (state == nullptr || state->now().operation != event.operation || state->now().settling ||
      state->now().waiting || !IsTransacting(state->phase)) {
    return;
  }
  if (ChangesOwner(state->job().transaction.kind)) return;
  StopRunning(*state, Answer::kNotNow);
  if (state->now().unknown && !Mutated(Mutation::kForgetWithdrawn)) {
    GiveUp(*state);
  } else {
    EndWork(*state, Answer::kNotNow);
  }
}

// Reads the row to find out whether a transaction was made, or whether a commit can be made.
void Ownership::Settle(SessionState& state) {
  state.job().settling = state.phase != Phase::kConfirming;
  AskForRow(state);
}

void Ownership::RetryLater(SessionState& state) {
  if (!MustBeDecided(state) && ++state.job().reads > kMaxAttempts) {
    GiveUp(state);
    return;
  }
  state.job().settling = false;
  state.job().waiting = true;
  state.job().operation = 0;
  state.job().timer = StartTimer(state.key, TimerKind::kRetry);
}

void Ownership::GiveUp(SessionState& state) {
  const TransactionKind kind = state.job().transaction.kind;
  state.checked = false;
  if (state.job().unknown && !ChangesOwner(kind) && kind != TransactionKind::kClose) {
    state.undecided = true;
  }
  EndWork(state, Answer::kNotNow);
}

// The row after a transaction whose outcome is unknown.
void Ownership::Settled(SessionState& state, const std::optional<OwnedRow>& row) {
  if (!row.has_value()) {
    RetryLater(state);
    return;
  }
  const Transaction& made = state.job().transaction;
  const bool epoch_rose = ChangesOwner(made.kind);
  const bool is_unchanged =
      row->open && row->epoch == made.fence.epoch && row->version == made.fence.version;
  // The version after this transaction. The owner makes one transaction at a time, and fences those
  // that it has given up, so only this one can have led there. For a start, the row of the turn
  // must be there too.
  const bool is_next = row->open && row->epoch == made.fence.epoch + (epoch_rose ? 1 : 0) &&
                       row->version == made.fence.version + 1 && row->owner == self_;
  state.job().settling = false;
  if (is_unchanged) {
    // It may still be made. Only the same transaction again, with the same fence, decides that: one
    // of the two is made.
    RetryLater(state);
    return;
  }
  switch (made.kind) {
    case TransactionKind::kClaim:
    case TransactionKind::kTransfer:
    case TransactionKind::kAbandon:
    case TransactionKind::kChange:
      if (is_next) {
        Made(state);
        return;
      }
      break;
    case TransactionKind::kStart:
      if (is_next && row->turn.has_value()) {
        Made(state);
        return;
      }
      break;
    case TransactionKind::kCommit:
      if (row->open && row->turn == TurnState::kCommitted) {
        if (is_next) {
          Made(state);
        } else {  // it was made, and the session has moved since
          Lose(state, Answer::kCommitted);
        }
        return;
      }
      if (Mutated(Mutation::kFenceAnew) && row->open) {
        state.job().transaction.fence = {state.key, row->epoch, row->version};
        TransactAgain(state);
        return;
      }
      break;
    case TransactionKind::kClose:
      if (!row->open) {
        Made(state);
        return;
      }
      break;
  }
  NotMade(state, Outcome::kFenced);
}

// The row before a commit, read because the lease has lapsed or the database has started anew.
void Ownership::Confirmed(SessionState& state, const std::optional<OwnedRow>& row) {
  if (!row.has_value()) {
    RetryLater(state);
    return;
  }
  if (!row->open || row->owner != self_ || row->epoch != state.epoch ||
      row->version != state.version) {
    const bool committed = row->open && row->turn == TurnState::kCommitted;
    Lose(state, committed ? Answer::kReplay : Answer::kMoved);
    return;
  }
  state.checked = lease_valid_;
  Transact(state, TransactionKind::kCommit);
}

void Ownership::Made(SessionState& state) {
  state.job().unknown = false;
  switch (state.job().transaction.kind) {
    case TransactionKind::kClaim:
    case TransactionKind::kTransfer:
      Acquired(state);
      return;
    case TransactionKind::kStart:
      ++state.version;
      Run(state);
      return;
    case TransactionKind::kCommit:
    case TransactionKind::kChange:
      ++state.version;
      if (state.copy) actions_.emplace_back(AdvanceCopy{state.key});
      EndWork(state, Answer::kCommitted);
      return;
    case TransactionKind::kAbandon:
      ++state.version;
      if (state.copy) actions_.emplace_back(AdvanceCopy{state.key});
      EndWork(state, Answer::kAbandoned);
      return;
    case TransactionKind::kClose:
      CloseMade(state);
  }
}

void Ownership::CloseMade(SessionState& state) {
  if (state.job().peer != self_ && !state.job().peer.empty()) {
    actions_.emplace_back(Send{
        state.job().peer,
        Moved{.session = state.key, .epoch = state.job().transaction.fence.epoch, .closed = true}});
  }
  Lose(state, Answer::kClosed);
}

// The transaction was not made, and never will be, unless it is given up while its outcome is
// unknown.
void Ownership::NotMade(SessionState& state, Outcome outcome) {
  const bool is_fenced = outcome == Outcome::kFenced;
  const bool has_moved = is_fenced || outcome == Outcome::kTurnExists;
  if (!has_moved) {
    Answer answer = outcome == Outcome::kFull ? Answer::kFull : Answer::kNotNow;
    if (outcome == Outcome::kRefused) {
      answer = Answer::kRefused;
      state.checked = false;  // is the session still there?
    }
    StopRunning(state, answer);
    EndWork(state, answer);
    return;
  }
  switch (state.job().transaction.kind) {
    case TransactionKind::kClaim:
    case TransactionKind::kTransfer:
      Drop(state);
      if (state.work == Work::kTake) {
        EndWork(state, Answer::kMoved);
      } else {
        Read(state);
      }
      return;
    case TransactionKind::kStart:
    case TransactionKind::kCommit:
      if (is_fenced) {
        Lose(state, Answer::kMoved);
        return;
      }
      StopRunning(state, Answer::kBusy);
      if (state.job().turn_refused) {
        EndWork(state, Answer::kFailed);  // the row and the store contradict each other
      } else {
        state.job().turn_refused = true;
        Read(state);  // what is the state of the turn?
      }
      return;
    case TransactionKind::kAbandon:
    case TransactionKind::kChange:
      Lose(state, Answer::kMoved);
      return;
    case TransactionKind::kClose:
      if (++state.job().reads <= kMaxAttempts) {
        Read(state);
      } else {
        EndWork(state, Answer::kBusy);
      }
  }
}

}  // namespace longstream::fleet
