// A program that lets many clients use a fleet while its replicas are killed, drained and paused,
// connections are cut, and the database restarts. The clients only send the same turn again. It
// compares every token with an undisturbed run, and counts what was lost.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/chaos/conversation.h"
#include "tests/chaos/disturbance.h"
#include "tests/chaos/fleet.h"
#include "tests/chaos/options.h"
#include "tests/chaos/scripts.h"

namespace longstream::chaos {
namespace {

constexpr uint64_t kScripts = 3;  // of each model
// How long the clients may need after the last fault.
constexpr seconds kPatience{240};

// The conversations, each run on one server that nothing disturbs.
std::vector<Script> MakeScripts(const Options& options) {
  // Enough turns for a client that happens to make short pauses.
  const int seconds = options.run_seconds + (options.rolling ? 20 * options.replicas : 0);
  const int turns = 3 + static_cast<int>(1.5 * seconds / options.pause);
  std::vector<uint32_t> tokens;
  for (int turn = 0; turn < turns; ++turn) {
    const auto most = static_cast<uint32_t>(options.turn_tokens);
    tokens.push_back(turn % 4 == 3 ? most : most / 6);
  }
  std::vector<Script> scripts;
  for (const char* model : {"dense", "hwfa2", "hypenet"}) {
    for (uint64_t seed = 0; seed < kScripts; ++seed) {
      scripts.push_back(MakeScript(model, seed, tokens));
    }
  }
  RunOnOneServer(options.server, options.models, &scripts);
  return scripts;
}

// The clients' threads. The destructor waits until they have ended.
class Clients {
 public:
  explicit Clients(std::atomic<bool>* stopping) : stopping_(stopping) {}
  ~Clients() {
    *stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;
  void Add(std::function<void()> client) { threads_.emplace_back(std::move(client)); }

 private:
  std::atomic<bool>* const stopping_;
  std::vector<std::thread> threads_;
};

class Run {
 public:
  Run(const Options& options, std::string folder)
      : options_(options),
        folder_(std::move(folder)),
        scripts_(MakeScripts(options)),
        fleet_(std::make_unique<Fleet>(options, folder_)) {
    for (size_t i = 0; i < static_cast<size_t>(options.sessions); ++i) {
      conversations_.push_back(std::make_unique<Conversation>(
          &scripts_[i % scripts_.size()], fleet_->fronts().address(i), options.seed * 1000 + i));
    }
  }

  // Returns whether nothing was lost.
  bool Start() {
    Disturbance disturbance(options_, fleet_.get());
    UseAndDisturb(&disturbance);
    fleet_->WaitUntilServing();
    ForEach(conversations_.size(), 8, [&](size_t i) { conversations_[i]->Check(); });
    fleet_->End();
    return Report(disturbance);
  }

 private:
  void UseAndDisturb(Disturbance* disturbance) {
    Clients clients(&stopping_);
    for (const std::unique_ptr<Conversation>& conversation : conversations_) {
      clients.Add([&] { conversation->Run(options_.pause, stopping_, phase_); });
    }
    if (options_.rolling) {
      std::this_thread::sleep_for(seconds(options_.run_seconds));
      phase_ = Phase::kDuring;
      disturbance->RollingRestart();
    } else {
      disturbance->Faults();
    }
    stopping_ = true;
    WaitForClients();
  }

  // Ends the program if a client does not get its answer.
  void WaitForClients() {
    const auto until = Clock::now() + kPatience;
    const auto has_ended = [](const auto& conversation) { return conversation->ended(); };
    while (!std::all_of(conversations_.begin(), conversations_.end(), has_ended)) {
      std::this_thread::sleep_for(milliseconds(50));
      if (Clock::now() < until) continue;
      for (const std::unique_ptr<Conversation>& conversation : conversations_) {
        if (conversation->ended()) continue;
        std::printf("FAULT: no answer: %s\n", conversation->ToString().c_str());
      }
      std::printf("logs: %s\n", folder_.c_str());
      std::fflush(stdout);
      fleet_ = nullptr;  // saves the logs of the replicas
      std::_Exit(1);
    }
  }

  bool Report(const Disturbance& disturbance) const {
    Replica::Counts replicas;
    for (const Replica* replica : fleet_->replicas()) {
      const Replica::Counts counts = replica->counts();
      replicas.starts += counts.starts;
      replicas.failed_starts += counts.failed_starts;
      replicas.kills += counts.kills;
      replicas.drains += counts.drains;
      replicas.pauses += counts.pauses;
      replicas.slowest_drain = std::max(replicas.slowest_drain, counts.slowest_drain);
      replicas.faults.insert(replicas.faults.end(), counts.faults.begin(), counts.faults.end());
    }
    Experience all;
    for (const std::unique_ptr<Conversation>& conversation : conversations_) {
      all.Add(conversation->experience());
    }
    std::printf(
        "replicas: %d starts, %d killed, %d drained (the slowest in %.1f s), %d paused; "
        "connections "
        "cut %d times; database restarted %d times%s\n",
        replicas.starts, replicas.kills, replicas.drains, replicas.slowest_drain, replicas.pauses,
        disturbance.cuts(), disturbance.database_restarts(),
        options_.failover ? " and failed over" : "");
    std::string repeated;
    for (const auto& [error, count] : all.repeated) {
      repeated += " " + error + " " + std::to_string(count);
    }
    std::printf("calls sent again:%s; turns that the client library went on with: %llu\n",
                repeated.empty() ? " none" : repeated.c_str(),
                static_cast<unsigned long long>(all.resumed));
    if (options_.rolling) {
      for (const Phase phase : {Phase::kBefore, Phase::kDuring}) {
        const char* const when = phase == Phase::kBefore ? "before" : "during the restarts";
        std::vector<double> firsts;
        for (const TurnTime& time : all.turn_times) {
          if (time.phase == phase) firsts.push_back(time.first_token_seconds);
        }
        PrintWaits("for the first token", when, std::move(firsts));
        PrintWaits("between two messages", when, all.gaps[static_cast<size_t>(phase)]);
      }
    }
    for (const std::string& fault : replicas.faults) std::printf("FAULT: %s\n", fault.c_str());
    all.PrintLosses();
    const bool enough = all.counts.turns > static_cast<uint64_t>(options_.sessions);
    if (!enough) std::printf("FAULT: too few turns\n");
    return all.good() && replicas.faults.empty() && enough;
  }

  static void PrintWaits(const char* wait, const char* when, std::vector<double> seconds) {
    if (seconds.empty()) return;
    std::sort(seconds.begin(), seconds.end());
    const auto at = [&](double part) {
      const double place = part * static_cast<double>(seconds.size() - 1);
      return 1e3 * seconds[static_cast<size_t>(place)];
    };
    std::printf("%s, %s: p50 %.1f ms, p99 %.1f ms, longest %.1f ms (%zu times)\n", wait, when,
                at(0.5), at(0.99), at(1), seconds.size());
  }

  const Options options_;
  const std::string folder_;
  const std::vector<Script> scripts_;
  std::unique_ptr<Fleet> fleet_;
  std::vector<std::unique_ptr<Conversation>> conversations_;
  std::atomic<bool> stopping_{false};
  std::atomic<Phase> phase_{Phase::kBefore};
};

void AddOptions(CLI::App* app, Options* options) {
  app->add_option("server", options->server, "longstream-server")->required();
  app->add_option("models", options->models, "directory of the demo models")->required();
  app->add_option("--replicas", options->replicas, "1: a server without a fleet")
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  app->add_option("--sessions", options->sessions)
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app->add_option("--seconds", options->run_seconds, "of faults; with --rolling, of load before it")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  app->add_option("--seed", options->seed, "which faults come, and when")->capture_default_str();
  app->add_option("--pause", options->pause, "mean seconds between two turns of a session")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  app->add_option("--turn-tokens", options->turn_tokens,
                  "of every fourth turn; the others have a sixth of it")
      ->capture_default_str()
      ->check(CLI::Range(6, 4096));
  app->add_option("--fault-period", options->fault_period, "mean seconds between two faults")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  app->add_option("--lease", options->lease_seconds, "seconds of a replica's lease")
      ->capture_default_str()
      ->check(CLI::Range(1, 60));
  app->add_flag("--direct", options->direct,
                "without Envoy: connections lead to a replica, then to another one");
  app->add_flag("--failover", options->failover, "the database's standby takes over in the middle");
  app->add_flag("--rolling", options->rolling,
                "no faults: each replica is drained and started again under load");
  app->add_option("--other-server", options->other_server,
                  "longstream-server of another version, which every second start takes");
  app->add_option("--log-level", options->log_level, "of the replicas")->capture_default_str();
  app->add_option("--logs", options->logs, "directory for the files of a run that fails")
      ->required();
}

int Main(int argc, char** argv) {
  CLI::App app("Disturbs a fleet while clients use it, and counts what they lost.");
  Options options;
  AddOptions(&app, &options);
  CLI11_PARSE(app, argc, argv);
  // Each connection through a proxy takes four descriptors.
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  options.models = std::filesystem::absolute(options.models);
  const std::filesystem::path folder =
      std::filesystem::absolute(options.logs) / std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::printf("seed %llu: %d sessions, %d replica(s), %d s%s%s%s%s\n",
              static_cast<unsigned long long>(options.seed), options.sessions, options.replicas,
              options.run_seconds, options.direct ? ", without Envoy" : "",
              options.failover ? ", failover" : "", options.rolling ? ", rolling restart" : "",
              options.other_server.empty() ? "" : ", two versions");
  std::fflush(stdout);
  bool is_good = false;
  try {
    is_good = Run(options, folder).Start();
  } catch (const std::exception& error) {
    std::printf("FAULT: %s\n", error.what());
  }
  if (is_good) {
    std::filesystem::remove_all(folder);
  } else {
    std::printf("FAILED; logs: %s\n", folder.c_str());
  }
  return is_good ? 0 : 1;
}

}  // namespace
}  // namespace longstream::chaos

int main(int argc, char** argv) { return longstream::chaos::Main(argc, argv); }
