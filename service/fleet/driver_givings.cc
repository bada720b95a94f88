// Sessions that this replica gives to peers, and peers that do not take them.
#include <utility>
#include <vector>

#include "service/fleet/driver_core.h"

namespace longstream::fleet {
namespace {

// The label of the metric.
const char* ReasonOf(LostCaches::Where where, absl::StatusCode why) {
  using enum LostCaches::Where;
  using enum absl::StatusCode;
  if (why == kResourceExhausted) return "no_memory";
  switch (where) {
    case kSent:
      if (why == kNotFound) return "evicted";
      if (why == kUnimplemented) return "other_model";
      return why == kUnavailable ? "in_use" : "broken";
    case kReceived:
      if (why == kDeadlineExceeded) return "late";
      return why == kFailedPrecondition || why == kInvalidArgument || why == kNotFound
                 ? "other_model"
                 : "broken";
    case kArrived:
      break;
  }
  if (why == kDeadlineExceeded) return "late";
  if (why == kDataLoss || why == kInternal) return "broken";
  return why == kFailedPrecondition ? "other_model" : "changed";
}

}  // namespace

void DriverCore::NoteGiving(const SessionKey& session, const ReplicaName& peer, Number request) {
  givings_[{peer, request}] = session;
}

void DriverCore::ForgetGiving(const SessionKey& session, const Before& before) {
  const SessionState* state = Find(session);
  const bool goes_on = state != nullptr && state->phase == Phase::kGiving &&
                       state->now().peer == before.peer && state->now().request == before.request;
  if (!goes_on) givings_.erase({before.peer, before.request});
}

const SessionState* DriverCore::FindGiving(const ReplicaName& peer, Number request) const {
  const auto found = givings_.find({peer, request});
  if (found == givings_.end()) return nullptr;
  const SessionState* state = Find(found->second);
  const bool is_given = state != nullptr && state->phase == Phase::kGiving &&
                        state->now().peer == peer && state->now().request == request;
  return is_given ? state : nullptr;
}

// Ends the machine's wait early. A transaction then decides who has the session, so
// this is safe at any time; it only costs the transaction, and that of a peer which lives.
void DriverCore::EndGiving(const ReplicaName& peer, Number request) {
  const SessionState* state = FindGiving(peer, request);
  if (state == nullptr || state->now().timer == 0) return;
  Handle(TimerFired{state->key, state->now().timer});
}

void DriverCore::EndGivingsToGone() {
  std::vector<std::pair<ReplicaName, Number>> gone;
  for (const auto& [giving, session] : givings_) {
    if (!replicas_.contains(giving.first)) gone.push_back(giving);
  }
  for (const auto& [peer, request] : gone) EndGiving(peer, request);
}

// A peer that has asked for the session may have ended its call because it has no room for the
// caches, and make its transaction now. A drain does not wait for that: it offers the sessions to
// other peers.
void DriverCore::GivingBroken(const ReplicaName& peer, Number request) {
  const SessionState* state = stopped_ ? nullptr : FindGiving(peer, request);
  if (state == nullptr) return;
  if (state->work == Work::kOffer) {
    silent_.insert(peer);
    TellPeers();
    EndGiving(peer, request);
    return;
  }
  timers_->Set(MonotonicTime::Now() + options_.times.broken, [this, peer, request] {
    (void)Post([this, peer, request] { EndGiving(peer, request); });
  });
}

void DriverCore::CallRefused(const ReplicaName& peer, Number request, const absl::Status& why) {
  if (stopped_) return;
  refused_ = {peer, request, why};
  if (options_.metrics != nullptr) options_.metrics->CountHandover("unanswered");
  if (options_.on_refused) options_.on_refused(peer, why);
}

void DriverCore::MessageArrived(const ReplicaName& from, PeerMessage message) {
  if (silent_.erase(from) > 0) TellPeers();
  Handle(MessageArrives{from, std::move(message)});
}

void DriverCore::CachesLost(LostCaches lost) {
  if (stopped_ || absl::IsOutOfRange(lost.why)) return;  // without tokens there are no caches
  lost.op = lost.where == LostCaches::Where::kSent ? "sent" : "received";
  lost.reason = ReasonOf(lost.where, lost.why.code());
  if (options_.metrics != nullptr) options_.metrics->CountLostCaches(lost.op, lost.reason);
  if (options_.on_lost_caches) options_.on_lost_caches(lost);
}

// A peer that broke off is asked again only if there is no other.
void DriverCore::TellPeers() {
  PeersChanged all, answering;
  for (const auto& [name, replica] : replicas_) {
    if (replica.draining) continue;
    all.peers.push_back(name);
    if (!silent_.contains(name)) answering.peers.push_back(name);
  }
  Handle(answering.peers.empty() ? std::move(all) : std::move(answering));
}

}  // namespace longstream::fleet
