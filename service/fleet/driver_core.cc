// Events go to the machine, its actions are run, and uses whose work has ended are ended.
#include "service/fleet/driver_core.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace longstream::fleet {

const SessionKey* SessionOf(const Event& event) {
  return std::visit(
      [](const auto& happened) -> const SessionKey* {
        using Happened = std::decay_t<decltype(happened)>;
        if constexpr (std::is_same_v<Happened, MessageArrives>) {
          return std::visit([](const auto& message) { return &message.session; }, happened.message);
        } else if constexpr (requires { happened.session; }) {
          return &happened.session;
        } else {
          return nullptr;
        }
      },
      event);
}

DriverCore::DriverCore(FleetDriverOptions options, FleetStore* store, store::CommitQueue* commits)
    : options_(std::move(options)),
      store_(store),
      commits_(commits),
      machine_(options_.self, {.redirect = options_.redirect, .max_offers = options_.max_offers}),
      timers_(std::make_unique<Timers>()),
      reader_(store, options_.read_threads, options_.max_reads) {}

void DriverCore::Start(SessionCopies* copies, Peers* peers) {
  (void)Post([this, copies, peers] {
    copies_ = copies;
    peers_ = peers;
  });
}

void DriverCore::Stop() {
  thread_.Stop([this] { StopNow(); });
  reader_.Stop();
  timers_.reset();
}

FleetCounts DriverCore::Counts() const {
  const absl::MutexLock lock(&counts_mutex_);
  return counts_;
}

bool DriverCore::Lives(const ReplicaName& other) const {
  const absl::MutexLock lock(&replicas_mutex_);
  return living_.contains(other);
}

bool DriverCore::IsFirst() const {
  const absl::MutexLock lock(&replicas_mutex_);
  return living_.empty() || options_.self < *living_.begin();
}

void DriverCore::StopNow() {
  stopped_ = true;
  const absl::Status why = absl::UnavailableError("this server is shutting down");
  while (!calls_.empty()) Answer(calls_.begin()->first, why);
  while (!uses_.empty()) {
    GivenUse& use = *uses_.begin()->second;
    const std::shared_ptr<GivenUse> kept = uses_.begin()->second;
    const auto go_on = std::exchange(use.go_on, nullptr);
    Detach(use, why);
    if (go_on) go_on(why);
  }
}

// ---------------------------------------------------------------- calls

void DriverCore::Enter(Work work, const SessionKey& session, const TurnId& turn, Entered entered) {
  if (machine_.exited() || stopped_) {
    entered(absl::UnavailableError("this server is shutting down"));
    return;
  }
  const CallId call = ++last_call_;
  calls_.emplace(call, Call{session, std::move(entered)});
  if (work == Work::kTurn) {
    Handle(TurnArrives{call, session, turn});
  } else if (work == Work::kChange) {
    Handle(ChangeArrives{call, session});
  } else {
    // A turn that waits for admission would hold up the close; one that runs, the machine stops.
    const std::shared_ptr<GivenUse> use = UseOf(session);
    if (use != nullptr && use->work == Work::kTurn && use->stage == GivenUse::Stage::kBegun) {
      copies_->Stop(session, StatusOf(fleet::Answer::kCancelled, session, {}));
    }
    Handle(CloseArrives{call, session});
  }
  if (!calls_.contains(call)) return;
  timers_->Set(MonotonicTime::Now() + options_.times.entry, [this, call] {
    (void)Post([this, call] {
      Answer(call, absl::UnavailableError("the session could not be reached in time"));
    });
  });
}

void DriverCore::AttachRunning(const SessionKey& session, const TurnId& turn, Entered entered) {
  const SessionState* state = Find(session);
  if (state == nullptr || !state->owned || state->work != Work::kTurn ||
      state->now().turn != turn) {
    entered(absl::AbortedError("turn " + turn.ToString() + " of session " + session.id.ToString() +
                               " does not run on " + options_.self));
    return;
  }
  Enter(Work::kTurn, session, turn, std::move(entered));
}

// If the machine has to read the row, it may find another owner, and would ask it for the session.
void DriverCore::EnterChangeHere(const SessionKey& session, Entered entered) {
  const SessionState* state = Find(session);
  const bool is_here = state != nullptr && state->phase == Phase::kFree && state->owned &&
                       state->checked && !state->undecided;
  if (!is_here) {
    entered(absl::AbortedError("session " + session.id.ToString() +
                               " is not on this server, or is in use"));
    return;
  }
  Enter(Work::kChange, session, {}, std::move(entered));
}

void DriverCore::RelayEnded(Number relay, const absl::Status& outcome) {
  const auto found = relays_.find(relay);
  if (found == relays_.end()) return;
  const Relay ended = std::move(found->second);
  relays_.erase(found);
  if (outcome.ok()) {
    Handle(MessageArrives{ended.peer, Attached{ended.session, relay, RelayEnd::kCommitted}});
  } else {
    Handle(RelayBroken{relay});
  }
}

void DriverCore::LeaseRenewed(const RenewedLease& renewed) {
  if (stopped_ || machine_.exited()) return;
  replicas_.clear();
  for (const Replica& other : renewed.others) replicas_.emplace(other.name, other);
  {
    const absl::MutexLock lock(&replicas_mutex_);
    living_.clear();
    for (const Replica& other : renewed.others) living_.insert(other.name);
  }
  std::erase_if(silent_, [this](const ReplicaName& peer) { return !replicas_.contains(peer); });
  peers_->SetReplicas(renewed.others);
  TellPeers();
  EndGivingsToGone();
  Handle(fleet::LeaseRenewed{.generation = renewed.generation, .lapsed = renewed.lapsed});
}

void DriverCore::Answer(CallId call, absl::StatusOr<Entry> entry) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  const Entered entered = std::move(found->second.entered);
  calls_.erase(found);
  entered(std::move(entry));
}

// ---------------------------------------------------------------- events

const SessionState* DriverCore::Find(const SessionKey& session) const {
  const auto found = machine_.sessions().find(session);
  return found == machine_.sessions().end() ? nullptr : &found->second;
}

DriverCore::Before DriverCore::StateBefore(const Event& event) const {
  const SessionKey* session = SessionOf(event);
  const SessionState* state = session == nullptr ? nullptr : Find(*session);
  if (state == nullptr) return {};
  return {state->phase, state->work, state->now().peer, state->now().request, state->now().timer};
}

void DriverCore::Handle(Event event) {
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    if (!stopped_) HandleOne(next);
  }
  store_error_ = absl::OkStatus();
  handling_ = false;
}

void DriverCore::HandleOne(const Event& event) {
  if (std::holds_alternative<fleet::LeaseRenewed>(event)) lease_valid_ = true;
  if (std::holds_alternative<LeaseOver>(event)) lease_valid_ = false;
  if (std::holds_alternative<DrainBegins>(event)) draining_ = true;
  if (std::holds_alternative<GraceOver>(event)) grace_over_ = true;
  event_ = &event;
  before_ = StateBefore(event);
  for (const Action& action : machine_.Handle(event)) {
    std::visit([this](const auto& each) { Do(each); }, action);
  }
  AfterEvent(event, before_);
  event_ = nullptr;
  // The counts are those of the end when the program hears of it.
  const std::optional<Exit> exit = std::exchange(exit_, std::nullopt);
  if (exit.has_value() && options_.on_exit) options_.on_exit(exit->release_lease);
}

void DriverCore::AfterEvent(const Event& event, const Before& before) {
  const SessionKey* session = SessionOf(event);
  if (session != nullptr) {
    if (const std::shared_ptr<GivenUse> use = UseOf(*session); use != nullptr) Reconcile(use);
  } else if (!std::holds_alternative<PeersChanged>(event)) {
    std::vector<std::shared_ptr<GivenUse>> uses;
    uses.reserve(uses_.size());
    for (const auto& [key, use] : uses_) uses.push_back(use);
    for (const std::shared_ptr<GivenUse>& use : uses) Reconcile(use);
  }
  // The machine knows of no copy if the work was the first one here, and the holder has made one.
  for (const SessionKey& key : std::exchange(ended_, {})) {
    const SessionState* state = Find(key);
    if (state == nullptr || !state->owned) copies_->Drop(key);
  }
  if (session != nullptr && before.phase == Phase::kGiving) ForgetGiving(*session, before);
  const bool waited = before.phase == Phase::kFetching || before.phase == Phase::kReceiving ||
                      before.phase == Phase::kGiving;
  const auto* fired = std::get_if<TimerFired>(&event);
  if (waited && fired != nullptr && fired->timer == before.timer) {
    if (before.phase == Phase::kReceiving) {
      CachesLost({LostCaches::Where::kReceived, *session, before.peer,
                  absl::DeadlineExceededError("the caches have taken too long")});
    }
    peers_->Forget(before.peer, before.request);
  }
  CountEvent(event, before);
  std::erase_if(without_caches_, [this](const auto& lost) { return !IsGiven(lost.first); });
  NoteMoves(session);
  UpdateCounts();
}

bool DriverCore::IsGiven(const SessionKey& session) const {
  const SessionState* state = Find(session);
  return state != nullptr && (state->phase == Phase::kGiving || state->work == Work::kKeep);
}

bool DriverCore::IsMoving(const SessionKey& session) const {
  const SessionState* state = Find(session);
  return state != nullptr &&
         (state->phase == Phase::kFetching || state->phase == Phase::kReceiving ||
          state->phase == Phase::kTransferring);
}

void DriverCore::NoteMoves(const SessionKey* session) {
  if (session == nullptr) {
    std::erase_if(moving_, [this](const auto& move) { return !IsMoving(move.first); });
  } else if (IsMoving(*session)) {
    moving_.emplace(*session, MonotonicTime::Now());
  } else {
    moving_.erase(*session);
  }
}

void DriverCore::CountEvent(const Event& event, const Before& before) {
  FleetMetrics* const metrics = options_.metrics;
  const auto count = [&](const char* outcome) {
    if (metrics != nullptr) metrics->CountHandover(outcome);
  };
  const auto* fired = std::get_if<TimerFired>(&event);
  const auto* message = std::get_if<MessageArrives>(&event);
  const auto* made = std::get_if<Transacted>(&event);
  const bool is_moved = message != nullptr && std::holds_alternative<Moved>(message->message);
  const auto* refused = message == nullptr ? nullptr : std::get_if<Refused>(&message->message);
  const bool decides_giving = made != nullptr && before.work == Work::kKeep;
  const bool is_given =
      before.phase == Phase::kGiving && is_moved && Find(*SessionOf(event)) == nullptr;
  if (is_given || (decides_giving && made->outcome == Outcome::kFenced)) {
    ++handed_over_;
    count("given");
    const auto lost = without_caches_.extract(*SessionOf(event));
    if (!lost.empty()) CachesLost(lost.mapped());
  } else if (decides_giving && made->outcome == Outcome::kMade) {
    count("kept");
  } else if (before.phase == Phase::kGiving && before.work == Work::kOffer && refused != nullptr &&
             message->from == before.peer && refused->request == before.request) {
    count("refused");
  } else if (before.phase == Phase::kFetching && fired != nullptr && fired->timer == before.timer) {
    count("unanswered");
  }
}

void DriverCore::UpdateCounts() {
  const absl::MutexLock lock(&counts_mutex_);
  counts_ = {machine_.sessions().size(), machine_.Progress(), handed_over_, machine_.exited()};
}

}  // namespace longstream::fleet
