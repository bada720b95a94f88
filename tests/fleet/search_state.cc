#include "tests/fleet/search_state.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/fleet/describe.h"

namespace longstream::fleet {

namespace {

const SessionKey kSession{"", SessionId{0, 1}};

TurnId TurnOf(size_t client) { return {0, client + 1}; }

bool HasHolder(const Pending& pending) {
  const TransactionKind kind = std::get<Transact>(*pending.action).transaction.kind;
  return kind != TransactionKind::kClaim && kind != TransactionKind::kTransfer;
}

}  // namespace

void SearchState::AddPending(Pending pending) {
  pending.incarnation = incarnations_[pending.replica];
  pending.bytes.push_back(static_cast<char>('0' + static_cast<int>(pending.kind)));
  pending.bytes.push_back(static_cast<char>('0' + pending.replica));
  pending.bytes += pending.from;
  if (pending.action.has_value()) {
    pending.bytes += Describe(*pending.action);
    pending.bytes += std::to_string(pending.content);
  } else {
    pending.bytes += Describe(pending.event);
  }
  pending_.push_back(std::move(pending));
}

SearchState::SearchState(const SearchBounds& bounds) : left_(bounds) {
  open_.resize(static_cast<size_t>(bounds.turns));
  done_.resize(static_cast<size_t>(bounds.turns));
  for (size_t i = 0; i < kReplicas; ++i) Start(i);
  TestReplica& owner = *replicas_[0];
  store_.Open(kSession, owner.machine().self());
  Do(0, owner.HandleOpened(kSession, &store_));
}

void SearchState::Start(size_t replica) {
  const ReplicaName name = NameOf(static_cast<int>(replica), ++incarnations_[replica]);
  replicas_[replica].emplace(name, OwnershipOptions{});
  Renew(replica);
}

void SearchState::Renew(size_t replica) {
  TestReplica& renewed = *replicas_[replica];
  // Time stands still at 0: a lease that is renewed holds until Release.
  const std::optional<LeaseRenewed> answer = store_.Renew(renewed.machine().self(), 0);
  Do(replica, renewed.Handle(PeersChanged{store_.Peers(renewed.machine().self(), 0)}, &store_));
  Do(replica, renewed.Handle(*answer, &store_));
}

std::vector<Choice> SearchState::Choices() const {
  std::vector<Choice> choices;
  for (size_t i = 0; i < pending_.size(); ++i) {
    const Pending& pending = pending_[i];
    using enum Pending::Kind;
    const bool is_over = (pending.kind == kTimer && left_.timers == 0) ||
                         (pending.kind == kRetry && left_.retries == 0);
    if (!is_over) {
      choices.push_back({Choice::Kind::kHappen, i});
    }
    if ((pending.kind == kMessage || pending.kind == kCaches) && left_.losses > 0) {
      choices.push_back({Choice::Kind::kLose, i});
    }
    if (pending.kind == kTransact && left_.unknowns > 0) {
      choices.push_back({Choice::Kind::kUnknown, i});
    }
    if (pending.kind == kTransact && left_.withdrawals > 0 && HasHolder(pending)) {
      choices.push_back({Choice::Kind::kWithdraw, i});
    }
    if (std::holds_alternative<TurnRan>(pending.event) && pending.kind == kEvent &&
        left_.cancels > 0) {
      choices.push_back({Choice::Kind::kCancel, i});
    }
  }
  for (size_t client = 0; client < done_.size(); ++client) {
    if (done_[client] || open_[client] != 0 || left_.calls == 0) continue;
    for (size_t replica = 0; replica < kReplicas; ++replica) {
      if (replicas_[replica].has_value()) {
        choices.push_back({Choice::Kind::kCall, client, replica});
      }
    }
  }
  for (size_t replica = 0; replica < kReplicas; ++replica) {
    const std::optional<TestReplica>& here = replicas_[replica];
    const ReplicaName name = NameOf(static_cast<int>(replica), incarnations_[replica]);
    const bool lives = store_.Lives(name, 0);
    if (!here.has_value()) {
      if (lives) choices.push_back({Choice::Kind::kLapse, 0, replica});
      choices.push_back({Choice::Kind::kStart, 0, replica});
      continue;
    }
    if (left_.crashes > 0) choices.push_back({Choice::Kind::kCrash, 0, replica});
    if (lives && left_.lapses > 0) choices.push_back({Choice::Kind::kLapse, 0, replica});
    if (!lives) choices.push_back({Choice::Kind::kRenew, 0, replica});
  }
  if (left_.drain && replicas_[0].has_value()) {
    choices.push_back({Choice::Kind::kDrain});
  }
  return choices;
}

void SearchState::Take(const Choice& choice) {
  const size_t replica = choice.replica;
  switch (choice.kind) {
    case Choice::Kind::kHappen:
    case Choice::Kind::kLose:
    case Choice::Kind::kUnknown:
    case Choice::Kind::kWithdraw:
    case Choice::Kind::kCancel:
      TakePending(choice.kind, choice.index);
      return;
    case Choice::Kind::kCall:
      --left_.calls;
      open_[choice.index] = ++last_call_;
      AddPending(
          {.replica = replica, .event = TurnArrives{last_call_, kSession, TurnOf(choice.index)}});
      return;
    case Choice::Kind::kCrash:
      --left_.crashes;
      replicas_[replica].reset();
      Forget(replica);
      return;
    case Choice::Kind::kStart:
      Start(replica);
      return;
    case Choice::Kind::kLapse:
      if (replicas_[replica].has_value()) --left_.lapses;
      store_.Release(NameOf(static_cast<int>(replica), incarnations_[replica]));
      return;
    case Choice::Kind::kRenew:
      Renew(replica);
      return;
    case Choice::Kind::kDrain:
      left_.drain = false;
      Do(0, replicas_[0]->Handle(DrainBegins{}, &store_));
  }
}

void SearchState::TakePending(Choice::Kind kind, size_t index) {
  Pending pending = pending_[index];
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  switch (kind) {
    case Choice::Kind::kLose:
      --left_.losses;
      return;
    case Choice::Kind::kUnknown: {
      --left_.unknowns;
      const Number operation = std::get<Transact>(*pending.action).operation;
      AddPending({.replica = pending.replica,
                  .event = Transacted{kSession, operation, Outcome::kUnknown}});
      pending.kind = Pending::Kind::kLate;
      pending.bytes[0] = static_cast<char>('0' + static_cast<int>(pending.kind));
      pending_.push_back(std::move(pending));
      return;
    }
    case Choice::Kind::kWithdraw:
      --left_.withdrawals;
      AddPending({.replica = pending.replica,
                  .event = Withdrawn{kSession, std::get<Transact>(*pending.action).operation}});
      return;
    case Choice::Kind::kCancel:
      --left_.cancels;
      std::get<TurnRan>(pending.event).end = TurnEnd::kAbandons;
      break;
    default:
      if (pending.kind == Pending::Kind::kTimer) --left_.timers;
      if (pending.kind == Pending::Kind::kRetry) --left_.retries;
  }
  Happen(pending);
}

// Messages and answers under way to or at a replica are gone with it; transactions that the
// database has are not.
void SearchState::Forget(size_t replica) {
  std::vector<Pending> kept;
  for (Pending& pending : pending_) {
    using enum Pending::Kind;
    if (pending.replica != replica) {
      kept.push_back(std::move(pending));
    } else if (pending.kind == kTransact || pending.kind == kLate) {
      pending.kind = kLate;
      pending.bytes[0] = static_cast<char>('0' + static_cast<int>(kLate));
      kept.push_back(std::move(pending));
    } else if (const auto* turn = std::get_if<TurnArrives>(&pending.event)) {
      for (CallId& open : open_) {
        if (open == turn->call) open = 0;
      }
    }
  }
  pending_ = std::move(kept);
  // The client of a call that was open here sees that the connection is gone. Calls that a peer
  // relays are not open here.
  std::array<bool, 64> elsewhere{};
  for (const Pending& pending : pending_) {
    if (const auto* turn = std::get_if<TurnArrives>(&pending.event)) elsewhere[turn->call] = true;
  }
  const std::optional<TestReplica>& other = replicas_[1 - replica];
  if (other.has_value()) {
    for (const CallId call : other->machine().OpenCalls()) elsewhere[call] = true;
  }
  for (CallId& open : open_) {
    if (open != 0 && !elsewhere[open]) open = 0;
  }
}

void SearchState::Happen(const Pending& pending) {
  using enum Pending::Kind;
  if (pending.kind == kLate) {
    const auto& transact = std::get<Transact>(*pending.action);
    store_.Apply(transact.transaction, pending.from, pending.content, 0);
    return;
  }
  std::optional<TestReplica>& replica = replicas_[pending.replica];
  if (!replica.has_value() || pending.incarnation != incarnations_[pending.replica]) return;
  switch (pending.kind) {
    case kEvent:
    case kMessage:
    case kTimer:
    case kRetry:
      Do(pending.replica, replica->Handle(pending.event, &store_));
      return;
    case kCaches: {
      const auto& sent = std::get<SendCaches>(*pending.action);
      Do(pending.replica, replica->HandleCaches(pending.from, sent, pending.content, &store_));
      return;
    }
    case kRow: {
      const auto& read = std::get<ReadRow>(*pending.action);
      const OwnedRow row = store_.Read(read.session, read.turn, 0);
      Do(pending.replica, replica->Handle(RowRead{read.session, read.operation, row}, &store_));
      return;
    }
    case kTransact: {
      const auto& transact = std::get<Transact>(*pending.action);
      const Outcome outcome = store_.Apply(transact.transaction, pending.from, pending.content, 0);
      AddPending(
          {.replica = pending.replica, .event = Transacted{kSession, transact.operation, outcome}});
      return;
    }
    case kLate:
      return;
  }
}

void SearchState::Do(size_t replica, const Effects& effects) {
  for (const Effect& effect : effects) Do(replica, effect);
}

void SearchState::Do(size_t replica, const Effect& effect) {
  using enum Pending::Kind;
  const ReplicaName self =
      replicas_[replica].has_value() ? replicas_[replica]->machine().self() : ReplicaName{};
  const auto to_peer = [&](const ReplicaName& to) {
    const auto peer = static_cast<size_t>(to.empty() ? 0 : ReplicaOf(to));
    const bool is_there =
        !to.empty() && replicas_[peer].has_value() && incarnations_[peer] == IncarnationOf(to);
    return is_there ? std::optional<size_t>(peer) : std::nullopt;
  };
  if (std::holds_alternative<ReadRow>(effect.action)) {
    AddPending({.kind = kRow, .replica = replica, .action = effect.action});
  } else if (std::holds_alternative<Transact>(effect.action)) {
    AddPending({.kind = kTransact,
                .replica = replica,
                .from = self,
                .action = effect.action,
                .content = effect.content});
  } else if (const auto* send = std::get_if<Send>(&effect.action)) {
    // A stream that breaks, or does not come about, is noticed some time.
    if (const auto* attach = std::get_if<Attach>(&send->message)) {
      AddPending({.kind = kTimer, .replica = replica, .event = RelayBroken{attach->relay}});
    }
    if (const auto peer = to_peer(send->to)) {
      AddPending(
          {.kind = kMessage, .replica = *peer, .event = MessageArrives{self, send->message}});
    }
  } else if (const auto* caches = std::get_if<SendCaches>(&effect.action)) {
    if (const auto peer = to_peer(caches->to)) {
      AddPending({.kind = kCaches,
                  .replica = *peer,
                  .from = self,
                  .action = effect.action,
                  .content = effect.content});
    }
  } else if (const auto* run = std::get_if<RunTurn>(&effect.action)) {
    AddPending({.replica = replica, .event = TurnRan{kSession, run->operation}});
  } else if (const auto* timer = std::get_if<SetTimer>(&effect.action)) {
    const TimerFired fired{kSession, timer->timer};
    if (timer->kind == TimerKind::kResidency) {  // min_residency is 0
      AddPending({.replica = replica, .event = fired});
    } else {
      const Pending::Kind kind = timer->kind == TimerKind::kRetry ? kRetry : kTimer;
      AddPending({.kind = kind, .replica = replica, .event = fired});
    }
  } else if (const auto* show = std::get_if<ShowTurn>(&effect.action)) {
    store_.Shown(kSession, show->turn);
  } else if (const auto* end = std::get_if<EndCall>(&effect.action)) {
    End(*end);
  } else if (const auto* exit = std::get_if<Exit>(&effect.action)) {
    if (exit->release_lease) store_.Release(self);
    replicas_[replica].reset();
    Forget(replica);
  }
}

void SearchState::End(const EndCall& end) {
  for (size_t client = 0; client < open_.size(); ++client) {
    if (open_[client] != end.call) continue;
    open_[client] = 0;
    if (end.answer == Answer::kCommitted || end.answer == Answer::kReplay) {
      store_.Acknowledged(kSession, TurnOf(client));
      done_[client] = true;
    } else if (end.answer == Answer::kAbandoned) {
      store_.Abandoned(kSession, TurnOf(client));
      done_[client] = true;
    } else if (end.answer == Answer::kNotFound) {
      store_.Fail("an open session was not found");
    }
  }
}

bool SearchState::AllDone() const {
  return std::find(done_.begin(), done_.end(), false) == done_.end();
}

void SearchState::Heal() {
  left_ = {.turns = left_.turns, .calls = 1000, .crashes = 0, .timers = 1000, .retries = 1000};
}

void SearchState::AppendBytes(std::string* bytes) const {
  store_.AppendBytes(bytes);
  for (size_t i = 0; i < kReplicas; ++i) {
    bytes->push_back(replicas_[i].has_value() ? '1' : '0');
    bytes->push_back(static_cast<char>(incarnations_[i]));
    if (replicas_[i].has_value()) replicas_[i]->AppendBytes(bytes);
  }
  std::vector<const std::string*> pending;
  for (const Pending& each : pending_) pending.push_back(&each.bytes);
  std::sort(pending.begin(), pending.end(),
            [](const std::string* a, const std::string* b) { return *a < *b; });
  for (const std::string* each : pending) bytes->append(*each).push_back('\n');
  for (size_t i = 0; i < done_.size(); ++i) {
    bytes->push_back(static_cast<char>(open_[i]));
    bytes->push_back(done_[i] ? '1' : '0');
  }
  for (const int left : {left_.calls, left_.crashes, left_.lapses, left_.losses, left_.unknowns,
                         left_.timers, left_.retries, left_.withdrawals, left_.cancels}) {
    bytes->push_back(static_cast<char>(left));
  }
  bytes->push_back(left_.drain ? '1' : '0');
}

std::string SearchState::Words(const Choice& choice) const {
  const std::string replica = "replica " + std::to_string(choice.replica);
  switch (choice.kind) {
    case Choice::Kind::kHappen:
    case Choice::Kind::kLose:
    case Choice::Kind::kUnknown:
    case Choice::Kind::kWithdraw:
    case Choice::Kind::kCancel: {
      const Pending& pending = pending_[choice.index];
      const char* const fate = choice.kind == Choice::Kind::kLose       ? "lost: "
                               : choice.kind == Choice::Kind::kUnknown  ? "unknown: "
                               : choice.kind == Choice::Kind::kWithdraw ? "withdrawn: "
                               : choice.kind == Choice::Kind::kCancel   ? "cancelled: "
                                                                        : "";
      const std::string what =
          pending.action.has_value() ? Describe(*pending.action) : Describe(pending.event);
      return fate + ("at " + std::to_string(pending.replica)) + ": " + what +
             (pending.kind == Pending::Kind::kLate ? " (late)" : "");
    }
    case Choice::Kind::kCall:
      return "client " + std::to_string(choice.index) + " calls " + replica;
    case Choice::Kind::kCrash:
      return replica + " crashes";
    case Choice::Kind::kStart:
      return replica + " starts";
    case Choice::Kind::kLapse:
      return "the lease of " + replica + " ends";
    case Choice::Kind::kRenew:
      return replica + " renews its lease";
    case Choice::Kind::kDrain:
      return replica + " drains";
  }
  return {};
}

}  // namespace longstream::fleet
