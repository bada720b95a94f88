// Answers the messages of other replicas. No message changes who owns a session; at worst a wrong
// or late one costs time.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "service/sessions/fleet/mutations.h"
#include "service/sessions/fleet/ownership.h"

namespace longstream::fleet {

void Ownership::On(const MessageArrives& event) {
  std::visit([&](const auto& message) { OnMessage(event.from, message); }, event.message);
}

void Ownership::OnMessage(const ReplicaName& from, const Fetch& fetch) {
  const auto refuse = [&](Refusal why) {
    actions_.emplace_back(Send{from, Refused{fetch.session, fetch.request, why}});
  };
  if (Find(fetch.session) == nullptr && Mutated(Mutation::kDisownUnknown)) {
    refuse(Refusal::kNotMine);
    return;
  }
  SessionState& state = State(fetch.session);
  if (state.phase == Phase::kGiving && state.now().peer == from) {
    if (state.work == Work::kOffer) {
      state.job().request = fetch.request;
      state.work = Work::kFetch;
      Give(state);
    } else if (fetch.request > state.now().request) {
      // The receiver has given up what it was given. Perhaps its transaction was fenced, because
      // the row has another version than this replica believes. If it were only given the session
      // again, and again, that would never be found out.
      refuse(Refusal::kNotYet);
      Keep(state);
    }
    return;  // else a repeated message
  }
  if (state.owned && fetch.epoch < state.epoch) {
    refuse(Refusal::kNotMine);
    return;
  }
  if (state.owned && HasTurn(state, fetch.turn)) {
    refuse(Refusal::kRunning);
    return;
  }
  if (!IsFree(state)) {
    refuse(state.owned && state.work == Work::kTurn ? Refusal::kBusy : Refusal::kNotYet);
    return;
  }
  if (state.owned && !state.may_leave && !draining_) {
    refuse(Refusal::kNotYet);
    return;
  }
  const uint64_t last_use = state.last_use;
  Begin(state, Work::kFetch);
  state.last_use = last_use;
  state.job().peer = from;
  state.job().request = fetch.request;
  if (state.owned && state.checked && state.epoch == fetch.epoch) {
    Give(state);
  } else {
    Read(state);  // a late transaction may have made this replica the owner
  }
}

// Offers the session to the peer, at its epoch and version. No turn starts until the receiver's
// transaction was made, or the time is over.
void Ownership::Give(SessionState& state) {
  SetPhase(state, Phase::kGiving);
  if (!Mutated(Mutation::kWaitForReceiverForever)) {
    state.job().timer = StartTimer(state.key, TimerKind::kGiving);
  }
  if (state.work == Work::kOffer) {
    actions_.emplace_back(Send{state.job().peer, Offer{state.key, state.job().request, state.epoch,
                                                       state.version, state.copy}});
  } else {
    actions_.emplace_back(Send{state.job().peer, Given{state.key, state.job().request, state.epoch,
                                                       state.version, state.copy}});
  }
  if (state.copy)
    actions_.emplace_back(SendCaches{state.key, state.job().peer, state.job().request});
}

// The time is over. A transaction of this replica decides: it gives the session to itself. If it is
// fenced, the receiver has the session. If it is made, the receiver's will be fenced. To read the
// row would not do: the receiver's transaction could still be made after that.
void Ownership::Keep(SessionState& state) {
  state.work = Work::kKeep;
  state.job().peer.clear();
  state.job().reads = 0;
  if (Mutated(Mutation::kOnlyReadAfterGiving)) {
    Read(state);
    return;
  }
  state.job().transaction.fence = {state.key, state.epoch, state.version};
  Transact(state, TransactionKind::kTransfer);
}

void Ownership::OnMessage(const ReplicaName& from, const Given& given) {
  SessionState* state = Find(given.session);
  if (state == nullptr || state->phase != Phase::kFetching || state->job().peer != from ||
      state->job().request != given.request) {
    return;
  }
  Receive(*state, given.epoch, given.version, given.has_caches);
}

void Ownership::OnMessage(const ReplicaName& from, const Refused& refused) {
  SessionState* state = Find(refused.session);
  if (state == nullptr || state->now().peer != from || state->now().request != refused.request) {
    return;
  }
  if (state->phase == Phase::kGiving && state->work == Work::kOffer) {
    Finish(*state);
    return;
  }
  if (state->phase != Phase::kFetching) return;
  switch (refused.why) {
    case Refusal::kNotMine:
      Read(*state);
      return;
    case Refusal::kRunning:
      if (state->work == Work::kTurn) {
        RelayCall(*state);
        return;
      }
      [[fallthrough]];
    case Refusal::kBusy:
      EndWork(*state, Answer::kBusy);
      return;
    case Refusal::kNotYet:
    case Refusal::kNotTaken:
      EndWork(*state, Answer::kNotNow);
  }
}

// The turn runs on the owner. The call reads its stream; the session has no work here.
void Ownership::RelayCall(SessionState& state) {
  if (state.job().call.has_value()) {
    const Number relay = Draw();
    relayed_[relay] = {*std::exchange(state.job().call, std::nullopt), state.key, state.job().peer};
    actions_.emplace_back(Send{state.job().peer, Attach{state.key, relay, state.job().turn}});
  }
  Finish(state);
}

void Ownership::OnMessage(const ReplicaName& from, const Attach& attach) {
  SessionState* state = Find(attach.session);
  if (state == nullptr || !state->owned || !HasTurn(*state, attach.turn)) {
    actions_.emplace_back(
        Send{from, Attached{attach.session, attach.relay, RelayEnd::kNotRunning}});
    return;
  }
  const Relay relay{from, attach.relay};
  if (std::find(state->job().relays.begin(), state->job().relays.end(), relay) ==
      state->job().relays.end()) {
    state->job().relays.push_back(relay);
  }
}

void Ownership::EndRelays(SessionState& state, RelayEnd end) {
  if (state.now().relays.empty()) return;
  for (const Relay& relay : state.job().relays) {
    actions_.emplace_back(Send{relay.peer, Attached{state.key, relay.number, end}});
  }
  state.job().relays.clear();
}

void Ownership::OnMessage(const ReplicaName& from, const Attached& attached) {
  const auto found = relayed_.find(attached.relay);
  if (found == relayed_.end() || found->second.peer != from) return;
  EndRelayed(found, attached.end == RelayEnd::kCommitted ? Answer::kCommitted : Answer::kNotNow);
}

void Ownership::On(const RelayBroken& event) {
  const auto found = relayed_.find(event.relay);
  if (found != relayed_.end()) EndRelayed(found, Answer::kNotNow);
}

void Ownership::EndRelayed(std::map<Number, RelayedCall>::iterator relayed, Answer answer) {
  actions_.emplace_back(EndCall{relayed->second.call, answer, {}});
  relayed_.erase(relayed);
}

void Ownership::EndAllRelayed() {
  while (!relayed_.empty()) EndRelayed(relayed_.begin(), Answer::kNotNow);
}

void Ownership::OnMessage(const ReplicaName& from, const Offer& offer) {
  SessionState& state = State(offer.session);
  if (state.work == Work::kTake && state.job().peer == from && state.job().request == offer.request)
    return;
  if (!Serving() || !IsFree(state) || state.owned) {
    actions_.emplace_back(Send{from, Refused{offer.session, offer.request, Refusal::kNotTaken}});
    if (state.phase == Phase::kFree) Finish(state);
    return;
  }
  Begin(state, Work::kTake);
  state.job().peer = from;
  state.job().request = offer.request;
  Receive(state, offer.epoch, offer.version, offer.has_caches);
}

// A session that moved or was closed: its copy is of no use. A turn that runs here is stopped; its
// commit would be fenced. A transaction that is being made goes on: it may have been made before.
void Ownership::OnMessage(const ReplicaName& /*from*/, const Moved& moved) {
  SessionState* state = Find(moved.session);
  if (state == nullptr || !state->owned) return;
  const bool is_lost = moved.closed ? moved.epoch == state->epoch : moved.epoch > state->epoch;
  if (!is_lost) return;
  if (state->phase == Phase::kGiving) state->work = Work::kCheck;  // its peer knows
  if (IsFree(*state) || state->phase == Phase::kRunning) {
    Lose(*state, Answer::kMoved);
  }
}

}  // namespace longstream::fleet
