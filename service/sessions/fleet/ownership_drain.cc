// The lease of a replica, and its end: sessions go to peers, then the lease is released.
#include <algorithm>
#include <utility>
#include <vector>

#include "service/sessions/fleet/mutations.h"
#include "service/sessions/fleet/ownership.h"

namespace longstream::fleet {

namespace {

// So many peers are asked to take a session. Then it is left to be claimed from the log.
constexpr int kMaxOffers = 2;

}  // namespace

// ---------------------------------------------------------------- the lease

void Ownership::On(const LeaseRenewed& event) {
  const bool is_new_database = generation_ != 0 && event.generation != generation_;
  const bool had_lapsed = event.lapsed && generation_ != 0;
  const bool was_valid = std::exchange(lease_valid_, true);
  generation_ = event.generation;
  if (was_valid && !is_new_database && !had_lapsed) return;
  if (Mutated(Mutation::kNoCheckAfterLapse)) {
    for (auto& [key, state] : sessions_) state.checked = state.owned;
    return;
  }
  // While the lease had lapsed, others may have claimed sessions.
  std::vector<SessionKey> keys;
  for (auto& [key, state] : sessions_) {
    state.checked = false;
    if (state.phase == Phase::kFree) keys.push_back(key);
  }
  for (const SessionKey& key : keys) Check(*Find(key));
}

// A replica without a lease begins nothing: what it began could be taken away at any time.
void Ownership::On(const LeaseOver& /*event*/) {
  lease_valid_ = false;
  for (auto& [key, state] : sessions_) state.checked = false;
}

void Ownership::On(const LeaseReplaced& /*event*/) { EndAll(/*release_lease=*/false); }

void Ownership::Check(SessionState& state) {
  state.work = Work::kCheck;
  Read(state);
}

void Ownership::On(const PeersChanged& event) { peers_ = event.peers; }

// ---------------------------------------------------------------- the drain

// New calls are refused from now on. Running turns go on until GraceOver.
void Ownership::On(const DrainBegins& /*event*/) {
  if (draining_) return;
  draining_ = true;
  std::vector<const SessionState*> idle;
  for (const auto& [key, state] : sessions_) {
    if (state.phase == Phase::kFree) idle.push_back(&state);
  }
  std::sort(idle.begin(), idle.end(),
            [](const SessionState* a, const SessionState* b) { return a->last_use > b->last_use; });
  for (const SessionState* state : idle) to_offer_.push_back(state->key);
}

// Work that waits for a transaction ends when its outcome is known. A turn does not run after that.
void Ownership::On(const GraceOver& /*event*/) {
  grace_over_ = true;
  EndAllRelayed();
  std::vector<SessionKey> keys;
  keys.reserve(sessions_.size());
  for (const auto& [key, state] : sessions_) keys.push_back(key);
  for (const SessionKey& key : keys) {
    SessionState& state = *Find(key);
    switch (state.phase) {
      case Phase::kRunning:
      case Phase::kConfirming:
        StopRunning(state, Answer::kNotNow);
        EndWork(state, Answer::kNotNow);
        break;
      case Phase::kReading:
      case Phase::kFetching:
      case Phase::kReceiving:
        if (state.now().call.has_value()) EndWork(state, Answer::kNotNow);
        break;
      default:  // a transaction is being made, and its outcome is awaited
        break;
    }
  }
}

void Ownership::On(const DrainOver& /*event*/) { EndAll(/*release_lease=*/true); }

// Offers idle sessions, the most recently used first, to peers in turn. Exits when nothing is left
// to do.
void Ownership::OfferSessions() {
  while (!to_offer_.empty() && giving_ < options_.max_offers && !peers_.empty()) {
    SessionState* state = Find(to_offer_.front());
    to_offer_.pop_front();
    if (state == nullptr || state->phase != Phase::kFree || !state->owned || !state->checked ||
        state->offers >= kMaxOffers) {
      continue;
    }
    OfferToPeer(*state);
  }
  if ((to_offer_.empty() || peers_.empty()) && busy_ == 0 && relayed_.empty()) {
    EndAll(/*release_lease=*/true);
  }
}

void Ownership::OfferToPeer(SessionState& state) {
  ++state.offers;
  state.work = Work::kOffer;
  state.job().peer = peers_[next_peer_++ % peers_.size()];
  state.job().request = Draw();
  Give(state);
}

void Ownership::EndAll(bool release_lease) {
  EndAllRelayed();
  for (auto& [key, state] : sessions_) {
    EndRelays(state, RelayEnd::kLost);
    StopRunning(state, Answer::kNotNow);
    if (state.now().call.has_value()) End(state.job().call, Answer::kNotNow);
    End(state.close, Answer::kNotNow);
    Drop(state);
  }
  sessions_.clear();
  exited_ = true;
  actions_.emplace_back(Exit{release_lease});
}

}  // namespace longstream::fleet
