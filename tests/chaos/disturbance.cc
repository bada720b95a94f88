// Draws the faults.
#include "tests/chaos/disturbance.h"

#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

namespace longstream::chaos {
namespace {

// For a replica that is started again.
constexpr seconds kRestartPatience{120};

}  // namespace

Disturbance::Disturbance(const Options& options, Fleet* fleet)
    : options_(options), fleet_(fleet), random_(options.seed) {}

milliseconds Disturbance::Between(int least, int most) {
  return milliseconds(std::uniform_int_distribution<int>(least, most)(random_));
}

void Disturbance::Say(const std::string& event) const {
  std::printf("  %6.1f s  %s\n", std::chrono::duration<double>(Clock::now() - begin_).count(),
              event.c_str());
  std::fflush(stdout);
}

void Disturbance::Faults() {
  const auto period = static_cast<int>(1000 * options_.fault_period);
  const auto whole = seconds(options_.run_seconds);
  for (;;) {
    const auto at = Clock::now() + Between(period / 2, period + period / 2);
    if (at >= begin_ + whole) return std::this_thread::sleep_until(begin_ + whole);
    std::this_thread::sleep_until(at);
    // The database is disturbed after a third and two thirds of the time; with a failover, after
    // each quarter.
    const int parts = options_.failover ? 4 : 3;
    if (database_events_ + 1 < parts &&
        Clock::now() >= begin_ + (database_events_ + 1) * whole / parts) {
      DisturbDatabase();
    } else {
      OneFault();
    }
  }
}

void Disturbance::OneFault() {
  const std::vector<Replica*> replicas = fleet_->replicas();
  Replica* const replica = replicas[random_() % replicas.size()];
  const milliseconds down = Between(0, 3000);
  switch (random_() % 10) {
    case 0:
    case 1:
    case 2:
      if (replica->Kill(down)) return Say("kill " + replica->name());
      break;
    case 3:
    case 4:
      if (replica->Drain(down)) return Say("drain " + replica->name());
      break;
    case 5:
    case 6: {
      const milliseconds time = options_.lease() + Between(500, 2000);
      if (replica->Pause(time)) {
        return Say("pause " + replica->name() + " for " + std::to_string(time.count()) + " ms");
      }
      break;
    }
    default:
      break;
  }
  Cut(replica);
}

void Disturbance::Cut(Replica* replica) {
  ++cuts_;
  switch (random_() % 4) {
    case 0:
      fleet_->fronts().CutOne();
      return Say("cut the connections of some clients");
    case 1:
      replica->CutCalls();
      return Say("cut the calls of " + replica->name());
    case 2:
      replica->CutStore();
      return Say("cut " + replica->name() + " off from the database");
    default:
      replica->CutPeers();
      return Say("cut " + replica->name() + " off from its peers");
  }
}

void Disturbance::DisturbDatabase() {
  const int event = ++database_events_;
  if (options_.failover && event == 2) {
    Say("the primary database ends, and the standby takes over");
    // libpq goes on to the standby only if the primary refuses connections. (If a proxy took them
    // and closed them, it would not.)
    for (Replica* replica : fleet_->replicas()) replica->RefuseDatabase(0);
    fleet_->database().FailOver();
    return;
  }
  const bool immediately = event > 1;
  Say(immediately ? "the database is stopped immediately" : "the database is stopped");
  fleet_->database().Restart(immediately, Between(500, 3000));
  ++database_restarts_;
  Say("the database serves again");
}

void Disturbance::RollingRestart() {
  for (Replica* replica : fleet_->replicas()) {
    const int starts = replica->counts().starts;
    if (!replica->Drain(milliseconds(0))) continue;
    Say("drain " + replica->name());
    for (const auto until = Clock::now() + kRestartPatience; replica->counts().starts == starts;) {
      if (Clock::now() > until) throw std::runtime_error(replica->name() + " does not come back");
      std::this_thread::sleep_for(milliseconds(20));
    }
    Fleet::WaitUntilServing(*replica);
    Say(replica->name() + " serves again");
    // Until Envoy has found out, and as an operator would.
    std::this_thread::sleep_for(seconds(2));
  }
}

}  // namespace longstream::chaos
