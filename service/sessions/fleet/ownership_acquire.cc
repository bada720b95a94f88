// How a replica gets a session that another one owns or has owned.
#include <cstdint>
#include <utility>

#include "service/sessions/fleet/mutations.h"
#include "service/sessions/fleet/ownership.h"

namespace longstream::fleet {

namespace {

// A session may move while it is looked for. After so many looks the client tries again.
constexpr int kMaxReads = 5;

}  // namespace

void Ownership::Acquire(SessionState& state, const OwnedRow& row) {
  state.job().peer = row.owner;
  const bool asks = row.owner_lives && !Mutated(Mutation::kClaimLiving);
  if (++state.job().reads > kMaxReads || (!asks && !row.claims_allowed)) {
    EndWork(state, Answer::kNotNow);
  } else if (asks) {
    AskOwner(state, row);
  } else {
    state.job().transaction.fence = {state.key, row.epoch, row.version};
    state.job().row_epoch = row.epoch;
    state.job().row_version = row.version;
    Transact(state, TransactionKind::kClaim);
  }
}

void Ownership::AskOwner(SessionState& state, const OwnedRow& row) {
  if (options_.redirect) {
    End(state.job().call, Answer::kElsewhere, row.owner);
    Finish(state);
    return;
  }
  SetPhase(state, Phase::kFetching);
  state.job().row_epoch = row.epoch;
  state.job().row_version = row.version;
  state.job().request = Draw();
  if (!Mutated(Mutation::kWaitForPeerForever)) {
    state.job().timer = StartTimer(state.key, TimerKind::kPeerAnswer);
  }
  const TurnId turn = state.work == Work::kTurn ? state.job().turn : TurnId{};
  actions_.emplace_back(Send{row.owner, Fetch{state.key, state.job().request, row.epoch, turn}});
}

// A peer gives the session, if a transaction finds it at this epoch and version.
void Ownership::Receive(SessionState& state, int64_t epoch, int64_t version, bool has_caches) {
  state.job().transaction.fence = {state.key, epoch, version};
  if (!has_caches) {
    Transfer(state);
    return;
  }
  SetPhase(state, Phase::kReceiving);
  state.job().operation = Draw();
  state.job().timer = StartTimer(state.key, TimerKind::kCaches);
  actions_.emplace_back(
      ReceiveCaches{state.key, state.job().operation, state.job().peer, state.job().request});
}

void Ownership::On(const CachesArrived& event) {
  SessionState* state = Find(event.session);
  if (state == nullptr || state->phase != Phase::kReceiving ||
      state->job().operation != event.operation) {
    return;
  }
  state->job().timer = 0;
  state->copy = event.complete;
  Transfer(*state);
}

void Ownership::Transfer(SessionState& state) {
  if (Mutated(Mutation::kOwnWithoutTransfer)) {
    state.owned = state.checked = true;
    state.epoch = state.job().transaction.fence.epoch;
    state.version = state.job().transaction.fence.version;
    if (state.work == Work::kTurn) {
      Continue(state);
    } else {
      Finish(state);
    }
    return;
  }
  Transact(state, TransactionKind::kTransfer);
}

// A transfer from this replica to itself: a start or change that was given up is fenced from then
// on, or was made before, and the row says so.
void Ownership::FenceEarlierWork(SessionState& state) {
  state.job().peer.clear();
  state.job().row_epoch = state.epoch;
  state.job().row_version = state.version;
  Transact(state, TransactionKind::kTransfer);
}

// The row names this replica now.
void Ownership::Acquired(SessionState& state) {
  const Fence& fence = state.job().transaction.fence;
  if (state.owned && state.copy) {
    actions_.emplace_back(
        KeepCopy{.from = fence, .to = {state.key, fence.epoch + 1, fence.version + 1}});
  }
  const bool was_owned = std::exchange(state.owned, true);
  state.checked = lease_valid_;
  state.undecided = false;
  state.epoch = fence.epoch + 1;
  state.version = fence.version + 1;
  if (state.work == Work::kKeep) {
    Finish(state);
    return;
  }
  if (state.work == Work::kTake) {
    state.may_leave = true;  // its clients have not been heard yet
  } else if (!was_owned) {
    state.may_leave = false;
    state.residency_timer = StartTimer(state.key, TimerKind::kResidency);
  }
  if (!state.job().peer.empty()) {
    actions_.emplace_back(
        Send{state.job().peer, Moved{.session = state.key, .epoch = state.epoch}});
  }
  if (state.work == Work::kTake) {
    EndWork(state, Answer::kCommitted);
  } else if (fence.epoch == state.job().row_epoch && fence.version == state.job().row_version) {
    Continue(state);
  } else {
    Read(state);  // the owner went on after the row was read; perhaps with this turn
  }
}

}  // namespace longstream::fleet
