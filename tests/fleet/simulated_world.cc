#include "tests/fleet/simulated_world.h"

#include <cstdio>
#include <string>
#include <utility>
#include <variant>

#include "tests/fleet/describe.h"

namespace longstream::fleet {

namespace {

Micros TimeOf(TimerKind kind) {
  switch (kind) {
    case TimerKind::kPeerAnswer:
    case TimerKind::kGiving:
      return 800 * kMillisecond;
    case TimerKind::kCaches:
      return kSecond;
    case TimerKind::kCommit:
      return kSecond;
    case TimerKind::kRetry:
      return 100 * kMillisecond;
    case TimerKind::kResidency:
      break;
  }
  return 300 * kMillisecond;
}

}  // namespace

void SimulationCounts::Add(const SimulationCounts& other) {
  steps += other.steps;
  commits += other.commits;
  claims += other.claims;
  transfers += other.transfers;
  fenced += other.fenced;
  crashes += other.crashes;
  pauses += other.pauses;
  drains += other.drains;
  restarts += other.restarts;
  unknown += other.unknown;
  late += other.late;
  lost += other.lost;
  repeated += other.repeated;
  relayed += other.relayed;
  offered += other.offered;
  abandoned += other.abandoned;
  changes += other.changes;
  withdrawn += other.withdrawn;
}

std::string Describe(const SimulationCounts& counts) {
  const auto words = [](uint64_t count, const char* of) {
    return std::to_string(count) + " " + of;
  };
  return words(counts.steps, "events: ") + words(counts.commits, "commits, ") +
         words(counts.changes, "other changes, ") + words(counts.abandoned, "turns abandoned, ") +
         words(counts.withdrawn, "withdrawn, ") + words(counts.claims, "claims, ") +
         words(counts.transfers, "handovers, ") + words(counts.offered, "offers, ") +
         words(counts.relayed, "relays, ") + words(counts.fenced, "fenced; ") +
         words(counts.crashes, "crashes, ") + words(counts.pauses, "pauses, ") +
         words(counts.drains, "drains, ") + words(counts.restarts, "restarts of the database, ") +
         words(counts.unknown, "unknown outcomes (") + words(counts.late, "made late), ") +
         words(counts.lost, "messages lost, ") + words(counts.repeated, "repeated");
}

SimulationResult Simulate(const SimulationOptions& options) {
  return SimulatedWorld(options).Run();
}

// ---------------------------------------------------------------- random numbers

uint64_t Random::Next() {
  state_ += 0x9E3779B97F4A7C15u;
  return Mix(state_);
}

int64_t Random::Between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
}

bool Random::Chance(double probability) {
  return probability > 0 && static_cast<double>(Next() >> 11) * 0x1p-53 < probability;
}

// ---------------------------------------------------------------- the run

SimulatedWorld::SimulatedWorld(const SimulationOptions& options)
    : options_(options), random_(options.seed), store_(kLeaseTtl) {
  DrawPlan();
  nodes_.resize(static_cast<size_t>(random_.Between(2, 4)));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].id = static_cast<int>(i);
    nodes_[i].clock_rate = 0.9 + 0.01 * static_cast<double>(random_.Between(0, 20));
    Start(nodes_[i]);
  }
  MakeClients();
  ScheduleFaults();
}

void SimulatedWorld::DrawPlan() {
  const auto maybe = [&](double chance, double most) {
    return random_.Chance(chance) ? most * static_cast<double>(random_.Between(1, 10)) / 10 : 0;
  };
  const auto maybe_every = [&](double chance) {
    return random_.Chance(chance) ? random_.Between(500 * kMillisecond, 5 * kSecond) : 0;
  };
  faults_end_ = random_.Between(kSecond, 8 * kSecond);
  plan_.lose = maybe(0.5, 0.2);
  plan_.repeat = maybe(0.5, 0.3);
  plan_.slow = maybe(0.5, 0.3);
  plan_.unknown = maybe(0.5, 0.3);
  plan_.fail_read = maybe(0.3, 0.2);
  plan_.fail_turn = maybe(0.2, 0.2);
  plan_.cancel_turn = maybe(0.2, 0.2);
  plan_.withdraw = maybe(0.3, 0.2);
  plan_.crash_step = maybe(0.3, 0.01);
  plan_.crash_every = maybe_every(0.4);
  plan_.pause_every = maybe_every(0.5);
  plan_.drain_every = maybe_every(0.4);
  plan_.restart_every = maybe_every(0.3);
  plan_.cut_every = maybe_every(0.3);
  plan_.evict_every = maybe_every(0.2);
  plan_.stall_every = maybe_every(0.2);
  plan_.refuse = maybe(0.1, 0.1);
  plan_.changes = random_.Chance(0.2) ? 0.7 : 0.1;
  plan_.full_store = random_.Chance(0.1);
  plan_.redirect = random_.Chance(0.2);
}

SimulationResult SimulatedWorld::Run() {
  // Long enough for leases to end, for a restart to be waited for, and for many tries.
  const Micros most = faults_end_ + 120 * kSecond;
  After(faults_end_, [this] { Heal(); });
  while (store_.error().empty() && !(AllDone() && !Faulty())) {
    if (now_ > most) {
      store_.Fail("a client has no answers long after the last fault");
      break;
    }
    RunNext();
  }
  // Late messages arrive, and replicas that were asleep find out which sessions they have lost.
  const Micros settled = now_ + 3 * kLeaseTtl;
  while (store_.error().empty() && now_ < settled) RunNext();
  if (store_.error().empty()) CheckEnd();
  counts_.commits = static_cast<uint64_t>(store_.num_commits());
  counts_.claims = static_cast<uint64_t>(store_.num_claims());
  counts_.transfers = static_cast<uint64_t>(store_.num_transfers());
  counts_.fenced = static_cast<uint64_t>(store_.num_fenced());
  if (!store_.error().empty()) Trace("ERROR: " + store_.error());
  return {store_.error(), counts_};
}

void SimulatedWorld::CheckEnd() {
  for (const Node& node : nodes_) {
    if (!node.replica.has_value()) continue;
    for (const SessionKey& key : node.replica->Copies()) {
      // If the notice of a close is lost, the copy stays until it is evicted.
      if (store_.IsOpen(key) && store_.OwnerOf(key) != node.replica->machine().self()) {
        store_.Fail("a replica keeps the copy of a session that is not its own");
      }
    }
    for (const auto& [key, state] : node.replica->machine().sessions()) {
      if (state.phase != Phase::kFree) store_.Fail("a session stays in work");
    }
  }
  for (const auto& [id, call] : calls_) {
    if (call.node >= 0) store_.Fail("a call does not end");
  }
}

// ---------------------------------------------------------------- time

void SimulatedWorld::After(Micros delay, std::function<void()> run) {
  items_.push({now_ + delay, ++sequence_, -1, 0, std::move(run)});
}

void SimulatedWorld::AfterAt(const Node& node, Micros delay, std::function<void()> run) {
  items_.push({now_ + delay, ++sequence_, node.id, node.incarnation, std::move(run)});
}

void SimulatedWorld::RunNext() {
  Item item = items_.top();
  items_.pop();
  now_ = item.at;
  if (item.node < 0) {
    item.run();
    return;
  }
  Node& node = nodes_[static_cast<size_t>(item.node)];
  if (!node.replica.has_value() || node.incarnation != item.incarnation) return;
  if (now_ < node.paused_until) {  // a zombie will see it when it wakes up
    item.at = node.paused_until;
    item.sequence = ++sequence_;
    items_.push(std::move(item));
    return;
  }
  item.run();
  ++counts_.steps;
  if (Faulty() && node.replica.has_value() && random_.Chance(plan_.crash_step)) {
    Crash(node);
  }
}

void SimulatedWorld::Trace(const std::string& words) {
  if (!options_.trace) return;
  std::printf("%10.3f ms  %s\n", static_cast<double>(now_) / 1000, words.c_str());
}

// ---------------------------------------------------------------- actions

void SimulatedWorld::Handle(Node& node, const Event& event) {
  if (!node.replica.has_value()) return;
  if (options_.trace) Trace(node.replica->machine().self() + " <- " + Describe(event));
  Do(node, node.replica->Handle(event, &store_));
}

void SimulatedWorld::Do(Node& node, const Effects& effects) {
  for (const Effect& effect : effects) {
    if (!node.replica.has_value()) return;
    if (options_.trace) {
      Trace(node.replica->machine().self() + "    -> " + Describe(effect.action));
    }
    std::visit([&](const auto& action) { Do(node, effect, action); }, effect.action);
  }
}

Micros SimulatedWorld::NetworkDelay() {
  if (Faulty() && random_.Chance(plan_.slow)) return random_.Between(1, 500 * kMillisecond);
  return random_.Between(100, 2 * kMillisecond);
}

bool SimulatedWorld::Passes(const Node& a, const Node& b) {
  const bool is_cut = now_ < a.cut_until || now_ < b.cut_until;
  if (!is_cut && !(Faulty() && random_.Chance(plan_.lose))) return true;
  ++counts_.lost;
  return false;
}

void SimulatedWorld::Do(Node& node, const Effect& /*effect*/, const ReadRow& read) {
  if (Faulty() && random_.Chance(plan_.fail_read)) {
    AfterAt(node, NetworkDelay(), [this, &node, read] {
      Handle(node, RowRead{read.session, read.operation, std::nullopt});
    });
    return;
  }
  const int incarnation = node.incarnation;
  After(NetworkDelay(), [this, &node, read, incarnation] {
    if (node.incarnation != incarnation) return;
    std::optional<OwnedRow> row;
    if (now_ >= store_down_until_) row = store_.Read(read.session, read.turn, StoreTime());
    AfterAt(node, NetworkDelay(), [this, &node, read, row] {
      Handle(node, RowRead{read.session, read.operation, row});
    });
  });
}

// The database runs what it has received, whatever has become of the replica.
void SimulatedWorld::Do(Node& node, const Effect& effect, const Transact& transact) {
  const Transaction& made = transact.transaction;
  const auto answer = [this, &node, key = made.fence.key, operation = transact.operation](
                          Micros delay, Outcome outcome) {
    AfterAt(node, delay, [this, &node, key, operation, outcome] {
      Handle(node, Transacted{key, operation, outcome});
    });
  };
  const bool has_holder =
      made.kind != TransactionKind::kClaim && made.kind != TransactionKind::kTransfer;
  if (has_holder && Faulty() && random_.Chance(plan_.withdraw)) {
    ++counts_.withdrawn;
    AfterAt(node, NetworkDelay(), [this, &node, key = made.fence.key, transact] {
      Handle(node, Withdrawn{key, transact.operation});
    });
    return;
  }
  const bool is_stalled = now_ < store_stalls_until_;
  const bool is_unknown = is_stalled || (Faulty() && random_.Chance(plan_.unknown));
  const bool is_late = is_unknown && random_.Chance(0.5);
  const bool is_never = is_unknown && !is_late && (is_stalled || random_.Chance(0.5));
  if (plan_.full_store && Faulty() && made.kind == TransactionKind::kCommit &&
      random_.Chance(0.3)) {
    answer(NetworkDelay(), Outcome::kFull);
    return;
  }
  if (Faulty() && random_.Chance(plan_.refuse)) {
    answer(NetworkDelay(), Outcome::kRefused);
    return;
  }
  if (is_unknown) {
    ++counts_.unknown;
    answer(random_.Between(kMillisecond, 300 * kMillisecond), Outcome::kUnknown);
    if (is_never) return;
  }
  Micros delay = is_late ? random_.Between(1, 3 * kSecond) : NetworkDelay();
  if (is_stalled) delay += store_stalls_until_ - now_;
  const ReplicaName name = node.replica->machine().self();
  const int incarnation = node.incarnation;
  After(delay, [=, this, &node, content = effect.content, generation = store_.generation()] {
    if (now_ < store_down_until_ || generation != store_.generation()) {
      // Which of both the client of the database sees depends on when the connection broke.
      const bool is_refused = generation == store_.generation() && random_.Chance(0.5);
      if (!is_unknown && node.incarnation == incarnation) {
        answer(NetworkDelay(), is_refused ? Outcome::kUnavailable : Outcome::kUnknown);
      }
      return;
    }
    const Outcome outcome = store_.Apply(transact.transaction, name, content, StoreTime());
    if (is_late && outcome == Outcome::kMade) {
      ++counts_.late;
      if (options_.trace) Trace("made late: " + Describe(Action(transact)));
    }
    if (!is_unknown && node.incarnation == incarnation) answer(NetworkDelay(), outcome);
  });
}

void SimulatedWorld::Do(Node& node, const Effect& /*effect*/, const fleet::Send& send) {
  counts_.offered += std::holds_alternative<Offer>(send.message) ? 1 : 0;
  if (const auto* attach = std::get_if<Attach>(&send.message)) {
    ++counts_.relayed;
    AfterAt(node, 1500 * kMillisecond,
            [this, &node, relay = attach->relay] { Handle(node, RelayBroken{relay}); });
  }
  if (send.to.empty()) return;
  Node& to = nodes_[static_cast<size_t>(ReplicaOf(send.to))];
  const bool is_twice = Faulty() && random_.Chance(plan_.repeat);
  counts_.repeated += is_twice ? 1 : 0;
  for (int i = 0; i < (is_twice ? 2 : 1); ++i) {
    if (to.incarnation != IncarnationOf(send.to) || !Passes(node, to)) continue;
    AfterAt(to, NetworkDelay(),
            [this, &to, from = node.replica->machine().self(), message = send.message] {
              Handle(to, MessageArrives{from, message});
            });
  }
}

void SimulatedWorld::Do(Node& node, const Effect& effect, const SendCaches& send) {
  Node& to = nodes_[static_cast<size_t>(ReplicaOf(send.to))];
  if (to.incarnation != IncarnationOf(send.to) || !Passes(node, to)) return;
  AfterAt(to, NetworkDelay() + random_.Between(0, 50 * kMillisecond),
          [this, &to, from = node.replica->machine().self(), send, content = effect.content] {
            Do(to, to.replica->HandleCaches(from, send, content, &store_));
          });
}

void SimulatedWorld::Do(Node& node, const Effect& /*effect*/, const RunTurn& run) {
  if (node.grace_over) store_.Fail("a turn starts after the grace time");
  TurnEnd end = TurnEnd::kCommits;
  if (Faulty() && random_.Chance(plan_.fail_turn)) end = TurnEnd::kFails;
  if (Faulty() && random_.Chance(plan_.cancel_turn)) end = TurnEnd::kAbandons;
  AfterAt(node, random_.Between(kMillisecond, 200 * kMillisecond), [this, &node, run, end] {
    Handle(node, TurnRan{run.session, run.operation, end});
  });
}

void SimulatedWorld::Do(Node& node, const Effect& /*effect*/, const SetTimer& timer) {
  AfterAt(node, Scaled(node, TimeOf(timer.kind)), [this, &node, timer] {
    Handle(node, TimerFired{timer.session, timer.timer});
  });
}

void SimulatedWorld::Do(Node& /*node*/, const Effect& /*effect*/, const ShowTurn& show) {
  store_.Shown(show.session, show.turn);
}

void SimulatedWorld::Do(Node& node, const Effect& /*effect*/, const EndCall& end) {
  Call& call = calls_.at(end.call);
  if (call.node != node.id) store_.Fail("a call ends twice, or where it is not open");
  call.node = -1;
  const SessionKey& session = clients_[call.client].session;
  if (call.kind == Kind::kTurn &&
      (end.answer == Answer::kCommitted || end.answer == Answer::kReplay)) {
    store_.Acknowledged(session, call.turn);
  }
  if (call.kind == Kind::kTurn && end.answer == Answer::kAbandoned) {
    ++counts_.abandoned;
    store_.Abandoned(session, call.turn);
  }
  if (call.kind == Kind::kChange && end.answer == Answer::kCommitted) {
    ++counts_.changes;
    store_.ChangeAcknowledged(session, end.call);
  }
  if (call.kind == Kind::kClose && end.answer == Answer::kClosed && store_.IsOpen(session)) {
    store_.Fail("a close was acknowledged, and the session is open");
  }
  if (Faulty() && random_.Chance(plan_.lose)) return;
  After(NetworkDelay(), [this, end] { Answered(end.call, end.answer, end.owner); });
}

void SimulatedWorld::Do(Node& node, const Effect& /*effect*/, const Exit& exit) {
  if (exit.release_lease) store_.Release(node.replica->machine().self());
  Stop(node);
  RestartLater(node);
}

// TestReplica has run these.
void SimulatedWorld::Do(Node& /*node*/, const Effect& /*effect*/, const ReceiveCaches& /*a*/) {}
void SimulatedWorld::Do(Node& /*node*/, const Effect& /*effect*/, const StopTurn& /*a*/) {}
void SimulatedWorld::Do(Node& /*node*/, const Effect& /*effect*/, const AdvanceCopy& /*a*/) {}
void SimulatedWorld::Do(Node& /*node*/, const Effect& /*effect*/, const KeepCopy& /*a*/) {}
void SimulatedWorld::Do(Node& /*node*/, const Effect& /*effect*/, const DropCopy& /*a*/) {}

}  // namespace longstream::fleet
