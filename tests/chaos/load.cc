// A program that uses a fleet which others run: more and fewer sessions at once, as a plan says.
// All sessions take turns, so each of them is used in every part of the plan, wherever it is by
// then. It compares every token with an undisturbed run, and counts what was lost.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/chaos/conversation.h"
#include "tests/chaos/options.h"
#include "tests/chaos/scripts.h"

namespace longstream::chaos {
namespace {

using Json = nlohmann::ordered_json;

struct LoadOptions {
  std::string server;   // longstream-server
  std::string models;   // the directory of the demo models
  std::string address;  // of the fleet
  std::string token_file;
  std::string model = "hypenet";
  std::vector<std::string> plan;
  std::string json;  // the file for the result
  int sessions = 48;
  int scripts = 6;
  int turns = 100;
  int tokens = 32;
  double pace = 0.5;
};

// A part of the plan.
struct Step {
  int seconds = 0;
  size_t at_once = 0;
};

// Lets sessions run their turns: as many at once as the plan says, those first that have waited
// longest. Thread-safe.
class Gate {
 public:
  explicit Gate(std::vector<Step> plan) : plan_(std::move(plan)) {}

  // Waits. Returns false when the plan is over.
  bool Enter() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t ticket = next_ticket_++;
    waiting_.push_back(ticket);
    for (;;) {
      const Step* const step = Now();
      if (step == nullptr) return false;
      if (waiting_.front() == ticket && running_ < step->at_once) break;
      changed_.wait_for(lock, milliseconds(100));
    }
    waiting_.pop_front();
    ++running_;
    changed_.notify_all();
    return true;
  }

  void Leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --running_;
    changed_.notify_all();
  }

 private:
  // The part of the plan that it is time for; nullptr: the plan is over.
  const Step* Now() const {
    auto end = begin_;
    for (const Step& step : plan_) {
      end += seconds(step.seconds);
      if (Clock::now() < end) return &step;
    }
    return nullptr;
  }

  const std::vector<Step> plan_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint64_t> waiting_;
  uint64_t next_ticket_ = 0;
  size_t running_ = 0;
};

std::vector<Step> ParsePlan(const std::vector<std::string>& texts) {
  std::vector<Step> plan;
  for (const std::string& text : texts) {
    Step step;
    char end = 0;
    if (std::sscanf(text.c_str(), "%d:%zu%c", &step.seconds, &step.at_once, &end) != 2 ||
        step.seconds < 1 || step.at_once < 1) {
      throw std::invalid_argument("--plan: expected SECONDS:SESSIONS, found '" + text + "'");
    }
    plan.push_back(step);
  }
  return plan;
}

// The conversations, each run on one server that nothing disturbs.
std::vector<Script> MakeScripts(const LoadOptions& options) {
  const std::vector<uint32_t> tokens(static_cast<size_t>(options.turns),
                                     static_cast<uint32_t>(options.tokens));
  std::vector<Script> scripts;
  for (int seed = 0; seed < options.scripts; ++seed) {
    scripts.push_back(MakeScript(options.model, static_cast<uint64_t>(seed), tokens));
  }
  RunOnOneServer(options.server, options.models, &scripts);
  return scripts;
}

Json TurnsOf(const Experience& all) {
  Json turns = Json::array();
  for (const TurnTime& time : all.turn_times) {
    const std::chrono::duration<double> at = time.at.time_since_epoch();
    turns.push_back({at.count(), time.first_token_seconds, time.seconds, time.tokens});
  }
  return turns;
}

bool Report(const LoadOptions& options, const Experience& all) {
  std::ofstream file(options.json);
  Json json;
  json["sessions"] = all.sessions;
  json["sessions_lost"] = all.lost;
  json["turns"] = all.counts.turns;
  json["turns_missing"] = all.counts.missing;
  json["turns_twice"] = all.counts.twice;
  json["turns_unexpected"] = all.unexpected;
  json["tokens"] = all.counts.tokens;
  json["tokens_different"] = all.counts.different;
  json["resumed"] = all.resumed;
  json["resumed_after"] = all.resumed_after;
  json["recomputed"] = all.recomputed;
  json["repeated"] = all.repeated;
  json["errors"] = all.errors;
  json["turn_times"] = TurnsOf(all);
  file << json;
  if (!file.flush()) throw std::runtime_error("cannot write " + options.json);
  all.PrintLosses();
  return all.good() && all.counts.turns > 0;
}

bool Run(const LoadOptions& options) {
  const std::vector<Step> plan = ParsePlan(options.plan);
  const std::vector<Script> scripts = MakeScripts(options);
  client::ChannelSecurity security;
  security.token_file = options.token_file;
  std::vector<std::unique_ptr<Conversation>> conversations;
  for (size_t i = 0; i < static_cast<size_t>(options.sessions); ++i) {
    conversations.push_back(
        std::make_unique<Conversation>(&scripts[i % scripts.size()], options.address, i, security));
  }
  std::printf("The load begins.\n");
  std::fflush(stdout);
  Gate gate(plan);
  std::vector<std::thread> threads;
  std::atomic<int> too_short{0};
  const auto pace =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.pace));
  for (const std::unique_ptr<Conversation>& conversation : conversations) {
    threads.emplace_back([&] {
      bool more = true;
      while (more && gate.Enter()) {
        const auto next_at = Clock::now() + pace;
        more = conversation->RunNext(Phase::kBefore);
        std::this_thread::sleep_until(next_at);
        gate.Leave();
      }
      if (!more) ++too_short;
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("The load is over. Each session runs one more turn.\n");
  std::fflush(stdout);
  Experience all;
  for (const std::unique_ptr<Conversation>& conversation : conversations) {
    conversation->Check();
    all.Add(conversation->experience());
  }
  if (too_short > 0 && all.errors.empty()) {
    std::printf("%d sessions ran all their turns before the end: --turns is too small\n",
                too_short.load());
  }
  return Report(options, all);
}

int Main(int argc, char** argv) {
  CLI::App app("Uses a fleet as a plan says, and counts what was lost.");
  LoadOptions options;
  app.add_option("server", options.server, "longstream-server, for the undisturbed run")
      ->required();
  app.add_option("models", options.models, "directory of the demo models")->required();
  app.add_option("--address", options.address, "of the fleet, or of the proxy in front of it")
      ->required();
  app.add_option("--token-file", options.token_file, "of the client");
  app.add_option("--model", options.model)->capture_default_str();
  app.add_option("--plan", options.plan,
                 "SECONDS:SESSIONS, one after the other: how many sessions run a turn at once")
      ->required();
  app.add_option("--sessions", options.sessions)->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--scripts", options.scripts, "different conversations")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--turns", options.turns, "that a conversation has at most")
      ->capture_default_str()
      ->check(CLI::Range(2, 10000));
  app.add_option("--tokens", options.tokens, "of an answer")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--pace", options.pace, "least seconds from a turn to the next one in its place")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--json", options.json, "file for the counts and the times of the turns")
      ->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return Run(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fleet_load: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace longstream::chaos

int main(int argc, char** argv) { return longstream::chaos::Main(argc, argv); }
