// Drivers in threads with random faults: no acknowledged turn is missing or doubled, no copy is
// used at another version, each call is answered, and each driver stops in any state.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/fleet/fleet_world.h"
#include "tests/service/wait_until.h"

namespace longstream::fleet {
namespace {

constexpr absl::Duration kLongest = absl::Seconds(120);

// Sends turns one after the other, each with one id until it is acknowledged.
class Client {
 public:
  Client(FleetWorld* world, SessionKey session, uint64_t first_turn)
      : world_(*world), session_(std::move(session)), next_(first_turn) {}

  // At least `turns`, and until EndSoon.
  void Run(int turns) {
    for (; (turns > 0 || !ends_) && !failed_; --turns) {
      if (world_.dice().Chance(0.1)) Change();
      Turn({0, next_++});
    }
  }
  void EndSoon() { ends_ = true; }
  bool failed() const { return failed_; }
  int tries() const { return tries_; }

 private:
  template <typename Begin>
  absl::Status Call(const Begin& begin) {
    ++tries_;
    const std::shared_ptr<WorldReplica> replica = world_.At(world_.dice().Draw(world_.size()));
    if (replica == nullptr) {
      absl::SleepFor(absl::Milliseconds(5));
      return absl::UnavailableError("it is down");
    }
    struct Ended {
      absl::Notification done;
      absl::Status status;
    };
    const auto answer = std::make_shared<Ended>();
    begin(replica->sessions(), [answer](const absl::Status& status) {
      answer->status = status;
      answer->done.Notify();  // ends the test if it is called twice
    });
    if (!answer->done.WaitForNotificationWithTimeout(kLongest)) {
      ADD_FAILURE() << "a call does not end";
      failed_ = true;
      return absl::DeadlineExceededError("");
    }
    return answer->status;
  }

  void Turn(const TurnId& turn) {
    const MonotonicTime give_up = MonotonicTime::Now() + kLongest;
    while (!failed_) {
      if (MonotonicTime::Now() > give_up) {
        ADD_FAILURE() << "turn " << turn.low << " gets no answer";
        failed_ = true;
        return;
      }
      const absl::Status status = Call([&](FakeSessions& sessions, FakeSessions::Done done) {
        sessions.RunTurn(session_, turn, std::move(done));
      });
      if (status.ok()) {
        world_.database().WithModel([&](ModelStore& model) { model.Acknowledged(session_, turn); });
        return;
      }
      if (absl::IsFailedPrecondition(status)) {
        world_.database().WithModel([&](ModelStore& model) { model.Abandoned(session_, turn); });
        return;
      }
      EXPECT_FALSE(absl::IsNotFound(status)) << status;
      absl::SleepFor(world_.dice().Time(absl::Milliseconds(20)));
    }
  }

  // Each try is a change of its own.
  void Change() {
    static std::atomic<CallId> last{0};
    const CallId change = ++last;
    const absl::Status status = Call([&](FakeSessions& sessions, FakeSessions::Done done) {
      sessions.Change(session_, change, std::move(done));
    });
    if (!status.ok()) return;
    world_.database().WithModel(
        [&](ModelStore& model) { model.ChangeAcknowledged(session_, change); });
  }

  FleetWorld& world_;
  const SessionKey session_;
  uint64_t next_;
  std::atomic<bool> ends_{false};
  bool failed_ = false;
  int tries_ = 0;
};

void Disturb(FleetWorld& world) {
  const size_t index = world.dice().Draw(world.size());
  const std::shared_ptr<WorldReplica> replica = world.At(index);
  switch (world.dice().Draw(5)) {
    case 0:
      if (replica != nullptr) replica->sessions().EvictOne();
      return;
    case 1:  // its lease ends, and others claim its sessions while it goes on
      if (replica == nullptr) return;
      replica->link().SetRenews(false);
      absl::SleepFor(FleetWorld::kLeaseTtl + world.dice().Time(FleetWorld::kLeaseTtl));
      replica->link().SetRenews(true);
      return;
    case 2:
      world.Crash(index);
      break;
    case 3:
      world.Drain(index);
      world.Crash(index);
      break;
    default:
      absl::SleepFor(world.dice().Time(absl::Milliseconds(100)));
      return;
  }
  absl::SleepFor(world.dice().Time(absl::Milliseconds(300)));
  world.StartReplica(index);
}

void RunSeed(uint64_t seed, absl::Duration faulty) {
  constexpr int kSessions = 3;
  constexpr int kClients = 5;
  FleetWorld world(3, seed);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kSessions; ++i) world.Open({"tenant", {0, i + 1}}, i);
  world.SetFaulty(true);
  for (uint64_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(&world, SessionKey{"tenant", {0, i % kSessions + 1}},
                                               1 + 1'000'000 * i));
    threads.emplace_back([client = clients.back().get()] { client->Run(10); });
  }
  const MonotonicTime end = MonotonicTime::Now() + faulty;
  while (MonotonicTime::Now() < end) Disturb(world);
  world.SetFaulty(false);
  for (const auto& client : clients) client->EndSoon();
  for (std::thread& thread : threads) thread.join();
  int tries = 0;
  for (const auto& client : clients) tries += client->tries();
  int copies_used = 0;
  for (size_t i = 0; i < world.size(); ++i) copies_used += world.At(i)->sessions().copies_used();
  world.database().WithModel([&](ModelStore& model) {
    EXPECT_EQ(model.error(), "") << "seed " << seed;
    std::printf("seed %llu: %d calls, %d commits, %d claims, %d transfers, %d fenced; %d copies\n",
                static_cast<unsigned long long>(seed), tries, model.num_commits(),
                model.num_claims(), model.num_transfers(), model.num_fenced(), copies_used);
  });
}

TEST(DriverFaultsTest, NoFaults) {
  FleetWorld world(2, 1);
  const SessionKey session{"", {0, 1}};
  world.Open(session, 0);
  Client client(&world, session, 1);
  client.EndSoon();
  client.Run(20);
  EXPECT_FALSE(client.failed());
  world.database().WithModel([](ModelStore& model) {
    EXPECT_EQ(model.error(), "");
    EXPECT_EQ(model.num_commits(), 20);
    EXPECT_GT(model.num_transfers(), 0);
  });
}

TEST(DriverFaultsTest, Seed1) { RunSeed(1, absl::Seconds(3)); }
TEST(DriverFaultsTest, Seed2) { RunSeed(2, absl::Seconds(3)); }
TEST(DriverFaultsTest, Seed3) { RunSeed(3, absl::Seconds(3)); }

}  // namespace
}  // namespace longstream::fleet
