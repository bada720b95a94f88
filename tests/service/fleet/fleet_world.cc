#include "tests/service/fleet/fleet_world.h"

#include <utility>

#include "absl/time/clock.h"
#include "tests/service/wait_until.h"

namespace longstream::fleet {
namespace {

std::vector<std::string> Ids(size_t replicas) {
  std::vector<std::string> ids;
  for (size_t i = 0; i < replicas; ++i) ids.push_back(std::to_string(i));
  return ids;
}

FleetTimes ShortTimes() {
  return {.peer_answer = absl::Milliseconds(300),
          .caches = absl::Milliseconds(200),
          .giving = absl::Milliseconds(400),
          .broken = absl::Milliseconds(10),
          .commit = absl::Milliseconds(500),
          .retry = absl::Milliseconds(20),
          .residency = absl::Milliseconds(50),
          .entry = absl::Seconds(5)};
}

}  // namespace

WorldReplica::WorldReplica(const std::string& id, absl::Duration lease_ttl, bool redirect,
                           Database* database, Network* network, Dice* dice, Timers* timers,
                           FakeSessions::RelayTo relay)
    : network_(*network),
      link_(database, dice),
      name_(*ReplicaLease::Join(&link_, id, absl::Seconds(1))),
      sessions_(std::make_shared<FakeSessions>(database, dice, timers, std::move(relay))),
      peers_(network, name_) {
  link_.SetName(name_);
  commits_ = std::make_unique<store::CommitQueue>(&link_, store::CommitQueue::Options{});
  FleetDriverOptions options;
  options.self = name_;
  options.redirect = redirect;
  options.times = ShortTimes();
  options.on_exit = [this](bool /*release_lease*/) { exited_ = true; };
  driver_ = std::make_shared<FleetDriver>(std::move(options), &link_, commits_.get());
  sessions_->Start(driver_, commits_.get());
  driver_->Start(sessions_.get(), &peers_);
  network_.Join(name_, driver_.get());
  ReplicaLease::Options lease;
  lease.self = {name_, "peer " + name_, "client " + name_, false};
  lease.ttl = lease_ttl;
  lease_ = std::make_unique<ReplicaLease>(&link_, driver_.get(), std::move(lease));
}

void WorldReplica::Stop() {
  network_.Leave(name_);
  lease_.reset();
  driver_->Stop();
  sessions_->Close();
  commits_.reset();
}

FleetWorld::FleetWorld(size_t replicas, uint64_t seed, bool redirect)
    : dice_(seed),
      database_(kLeaseTtl, &dice_),
      network_(&dice_),
      redirect_(redirect),
      ids_(Ids(replicas)),
      replicas_(replicas) {
  for (size_t i = 0; i < replicas; ++i) StartReplica(i);
}

FleetWorld::~FleetWorld() {
  for (size_t i = 0; i < size(); ++i) Crash(i);
}

std::shared_ptr<WorldReplica> FleetWorld::At(size_t index) {
  const absl::MutexLock lock(&mutex_);
  return replicas_[index];
}

void FleetWorld::SetFaulty(bool faulty) {
  database_.SetFaulty(faulty);
  network_.SetFaulty(faulty);
  const absl::MutexLock lock(&mutex_);
  faulty_ = faulty;
  for (const std::shared_ptr<WorldReplica>& replica : replicas_) {
    if (replica == nullptr) continue;
    replica->sessions().SetFaulty(faulty);
    if (!faulty) replica->link().SetRenews(true);
  }
}

void FleetWorld::StartReplica(size_t index) {
  const auto relay = [this](const ReplicaName& peer, const SessionKey& session, const TurnId& turn,
                            const FakeSessions::Done& done) {
    for (size_t i = 0; i < size(); ++i) {
      const std::shared_ptr<WorldReplica> replica = At(i);
      if (replica == nullptr || replica->name() != peer) continue;
      replica->sessions().AttachTurn(session, turn, done);
      return;
    }
    done(absl::UnavailableError("the peer is down"));
  };
  auto replica = std::make_shared<WorldReplica>(ids_[index], kLeaseTtl, redirect_, &database_,
                                                &network_, &dice_, &timers_, relay);
  const absl::MutexLock lock(&mutex_);
  replica->sessions().SetFaulty(faulty_);
  replicas_[index] = std::move(replica);
}

void FleetWorld::Crash(size_t index) {
  std::shared_ptr<WorldReplica> replica;
  {
    const absl::MutexLock lock(&mutex_);
    replica.swap(replicas_[index]);
  }
  // Others may hold it for a moment, on any thread.
  if (replica != nullptr) replica->Stop();
}

void FleetWorld::Drain(size_t index) {
  const std::shared_ptr<WorldReplica> replica = At(index);
  if (replica == nullptr) return;
  replica->lease().BeginDrain();
  replica->driver().BeginDrain();
  absl::SleepFor(dice_.Time(absl::Milliseconds(100)));
  replica->driver().GraceOver();
  absl::SleepFor(dice_.Time(absl::Milliseconds(300)));
  replica->driver().DrainOver();
  (void)WaitUntil([&] { return replica->exited(); });
  (void)replica->lease().Release();
}

void FleetWorld::Open(const SessionKey& session, size_t index) {
  const std::shared_ptr<WorldReplica> replica = At(index);
  database_.WithModel([&](ModelStore& model) { model.Open(session, replica->name()); });
  replica->sessions().Opened(session);
}

}  // namespace longstream::fleet
