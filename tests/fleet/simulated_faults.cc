// Faults of the simulated fleet, and the leases of its replicas.
#include <algorithm>

#include "tests/fleet/simulated_world.h"

namespace longstream::fleet {

// ---------------------------------------------------------------- replicas

void SimulatedWorld::Start(Node& node) {
  ++node.incarnation;
  OwnershipOptions options;
  options.redirect = plan_.redirect;
  options.max_offers = static_cast<int>(random_.Between(1, 3));
  node.replica.emplace(NameOf(node.id, node.incarnation), options);
  node.paused_until = 0;
  node.lease_end = 0;
  node.draining = node.grace_over = false;
  Renew(node);
}

void SimulatedWorld::Stop(Node& node) {
  node.replica.reset();
  for (auto& [id, call] : calls_) {
    if (call.node == node.id) call.node = -1;
  }
}

void SimulatedWorld::Crash(Node& node) {
  Trace("crash of " + node.replica->machine().self());
  ++counts_.crashes;
  Stop(node);
  RestartLater(node);
}

void SimulatedWorld::RestartLater(Node& node) {
  const int incarnation = node.incarnation;
  After(random_.Between(50 * kMillisecond, 3 * kSecond), [this, &node, incarnation] {
    if (!node.replica.has_value() && node.incarnation == incarnation) Start(node);
  });
}

// Renews the lease again and again. Each answer also names the peers.
void SimulatedWorld::Renew(Node& node) {
  const Micros sent = now_;
  AfterAt(node, kLeaseTtl / 3, [this, &node] { Renew(node); });
  if (now_ < store_down_until_ || (Faulty() && random_.Chance(plan_.unknown))) return;
  const ReplicaName self = node.replica->machine().self();
  const int incarnation = node.incarnation;
  After(random_.Between(100, 5 * kMillisecond), [this, &node, self, incarnation, sent] {
    if (now_ < store_down_until_ || node.incarnation != incarnation) return;
    const std::optional<LeaseRenewed> renewed = store_.Renew(self, StoreTime());
    const std::vector<ReplicaName> peers = store_.Peers(self, StoreTime());
    AfterAt(node, random_.Between(100, 5 * kMillisecond), [this, &node, renewed, peers, sent] {
      if (!renewed.has_value()) {
        Handle(node, LeaseReplaced{});
        return;
      }
      node.lease_end = std::max(node.lease_end, sent + kLeaseTtl);
      if (now_ >= node.lease_end) return;  // the answer is too old
      Handle(node, PeersChanged{peers});
      Handle(node, *renewed);
      // The replica's clock measures this time too.
      AfterAt(node, Scaled(node, node.lease_end - now_), [this, &node, end = node.lease_end] {
        if (node.lease_end == end) Handle(node, LeaseOver{});
      });
    });
  });
}

SimulatedWorld::Node& SimulatedWorld::AnyNode() { return nodes_[random_.Next() % nodes_.size()]; }

// ---------------------------------------------------------------- faults

void SimulatedWorld::ScheduleFaults() {
  Repeat(plan_.crash_every, [this] { CrashOne(); });
  Repeat(plan_.pause_every, [this] { PauseOne(); });
  Repeat(plan_.drain_every, [this] { DrainOne(); });
  Repeat(plan_.restart_every, [this] { RestartStore(); });
  Repeat(plan_.cut_every, [this] { CutOne(); });
  Repeat(plan_.evict_every, [this] { EvictOne(); });
  Repeat(plan_.stall_every, [this] { StallStore(); });
}

void SimulatedWorld::Repeat(Micros every, const std::function<void()>& fault) {
  if (every == 0) return;
  After(random_.Between(every / 4, 2 * every), [this, every, fault] {
    if (!Faulty()) return;
    fault();
    Repeat(every, fault);
  });
}

void SimulatedWorld::CrashOne() {
  Node& node = AnyNode();
  if (node.replica.has_value()) Crash(node);
}

void SimulatedWorld::PauseOne() {
  Node& node = AnyNode();
  if (!node.replica.has_value()) return;
  node.paused_until = now_ + random_.Between(200 * kMillisecond, 6 * kSecond);
  Trace("pause of " + node.replica->machine().self());
  ++counts_.pauses;
}

void SimulatedWorld::DrainOne() {
  Node& node = AnyNode();
  if (!node.replica.has_value() || node.draining) return;
  node.draining = true;
  ++counts_.drains;
  AfterAt(node, 0, [this, &node] { Handle(node, DrainBegins{}); });
  AfterAt(node, random_.Between(0, 500 * kMillisecond), [this, &node] {
    Handle(node, GraceOver{});
    node.grace_over = true;
  });
  AfterAt(node, random_.Between(500 * kMillisecond, 3 * kSecond),
          [this, &node] { Handle(node, DrainOver{}); });
}

void SimulatedWorld::CutOne() {
  AnyNode().cut_until = now_ + random_.Between(200 * kMillisecond, 3 * kSecond);
}

void SimulatedWorld::EvictOne() {
  Node& node = AnyNode();
  if (!node.replica.has_value()) return;
  AfterAt(node, 0, [this, &node] {
    for (const SessionKey& key : node.replica->Copies()) {
      const auto& sessions = node.replica->machine().sessions();
      const auto found = sessions.find(key);
      if (found == sessions.end() || found->second.phase != Phase::kFree) continue;
      Handle(node, CopyEvicted{key});
      node.replica->Evict(key);
      return;
    }
  });
}

// The database is away for a while. Its clock may jump, because another server has taken its place.
void SimulatedWorld::RestartStore() {
  const Micros time = random_.Between(50 * kMillisecond, 4 * kSecond);
  Trace("the database goes away");
  ++counts_.restarts;
  store_down_until_ = now_ + time;
  After(time, [this] {
    if (now_ < store_down_until_) return;
    store_offset_ += random_.Between(-2 * kSecond, 2 * kSecond);
    store_.Restart(StoreTime());
    Trace("the database is back");
  });
}

// Longer than a start or a change is tried: those are given up, and may be made later.
void SimulatedWorld::StallStore() {
  Trace("the database does not answer transactions");
  store_stalls_until_ = std::min(now_ + random_.Between(kSecond, 6 * kSecond), faults_end_);
}

void SimulatedWorld::Heal() {
  Trace("no more faults");
  for (Node& node : nodes_) {
    node.paused_until = std::min(node.paused_until, now_);
    node.cut_until = 0;
    if (!node.replica.has_value()) Start(node);
  }
}

}  // namespace longstream::fleet
