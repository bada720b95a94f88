// Hostile clients attack the ports of a server while 16 honest clients generate. Periods with
// attacks and periods without take turns. Every honest turn must give the tokens that it gives when
// it runs alone. At the end, when all connections and sessions are closed, the server must hold no
// more memory, descriptors and threads than after the warm-up. With --least-kept the honest clients
// must also keep that share of the tokens a second of the periods without attacks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/hostile/attack_threads.h"
#include "tests/e2e/hostile/honest_streams.h"
#include "tests/e2e/hostile/remote_method.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kStreams = 16;
constexpr size_t kMaxMessageBytes = 256 << 10;
constexpr size_t kMaxConnections = 200;
constexpr int kWarmUps =
    20;  // how often each thread makes each attack before the first measurement
// Connections of the streams, and of this program itself.
constexpr double kOwnConnections = kStreams + 2;
constexpr milliseconds kPatience{60000};

struct Options {
  std::string binary;
  std::string models;
  uint32_t seed = 1;
  int attacked = 600;     // seconds of attacks
  int period = 15;        // seconds of one period of attacks
  int undisturbed = 5;    // seconds of one period without attacks
  double rate = 40;       // attacks a second
  std::string only;       // makes only attacks whose names contain this
  double least_kept = 0;  // 0: the speed is only reported
};

// What the server holds when it has nothing to do.
struct Holding {
  uint64_t bytes = 0;
  size_t descriptors = 0;
  size_t threads = 0;
};

// Tokens of the honest streams and processor time of the server in periods of one kind.
struct Speed {
  uint64_t tokens = 0;
  double seconds = 0;
  double server_seconds = 0;

  double rate() const { return static_cast<double>(tokens) / seconds; }
};

std::string Configuration(const std::string& models) {
  std::string yaml = "max_message_bytes: " + std::to_string(kMaxMessageBytes) +
                     "\nconnections: {max: " + std::to_string(kMaxConnections) +
                     ", handshake_timeout: 2s, idle_timeout: 5s}\nmodels:\n";
  for (const char* model : {"dense", "hwfa2", "hypenet"}) {
    yaml += std::string("- {name: ") + model + ", directory: " + models + "/" + model + "}\n";
  }
  return yaml;
}

class HostileSoak {
 public:
  HostileSoak(const Options& options, const std::string& configuration)
      : options_(options),
        server_(options.binary, {"--config", configuration}),
        connection_(server_.address()) {
    for (const char* model : {"dense", "hwfa2", "hypenet"}) {
      connection_.WaitUntilServing(model, kPatience);
    }
    services_.emplace(server_.address());
    target_ = {.port = server_.port(),
               .metrics_port = server_.metrics_port(),
               .max_message_bytes = kMaxMessageBytes,
               .max_connections = kMaxConnections,
               .methods = services_->methods()};
    attacks_.emplace(target_, options.seed, options.rate, options.only);
    honest_.emplace(server_.address(), std::vector<std::string>{"dense", "hwfa2", "hypenet"},
                    kStreams);
  }

  // Returns the number of faults.
  int Run() {
    honest_->Start();
    Measure(&warm_up_, [&] { attacks_->RunEach(kWarmUps); });
    const Holding before = Idle();
    honest_->Start();
    for (int done = 0; done < options_.attacked; done += options_.period) RunCycle();
    const Holding after = Idle();

    ExpectFlat(before, after);
    ExpectEverythingTried();
    ExpectQuietLog();
    const double kept = attacked_.rate() / undisturbed_.rate();
    if (kept < options_.least_kept) {
      Fault("the honest streams kept less than " + std::to_string(options_.least_kept));
    }
    faults_ += honest_->faults() + attacks_->counts().failures;
    const int exit_status = server_.Stop();
    if (exit_status != 0) Fault("the server ended with " + std::to_string(exit_status));
    Print(before, after);
    if (faults_ > 0) std::printf("%s\n", Tail(server_.Log()).c_str());
    return faults_;
  }

 private:
  void Fault(const std::string& sentence) {
    std::printf("FAULT: %s\n", sentence.c_str());
    ++faults_;
  }

  template <typename Body>
  double Measure(Speed* speed, const Body& body) {
    const Clock::time_point begin = Clock::now();
    const uint64_t tokens = honest_->tokens();
    const double server_seconds = server_.processor_seconds();
    body();
    Speed period;
    period.tokens = honest_->tokens() - tokens;
    period.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    period.server_seconds = server_.processor_seconds() - server_seconds;
    speed->tokens += period.tokens;
    speed->seconds += period.seconds;
    speed->server_seconds += period.server_seconds;
    return period.rate();
  }

  void RunCycle() {
    const double alone =
        Measure(&undisturbed_, [&] { std::this_thread::sleep_for(seconds(options_.undisturbed)); });
    const double under_attack =
        Measure(&attacked_, [&] { attacks_->Run(Clock::now() + seconds(options_.period)); });
    kept_.push_back(under_attack / alone);
    std::printf(
        "%6.0f tokens/s, %6.0f under attack: %.3f; %llu KiB, %zu descriptors, %zu threads\n", alone,
        under_attack, kept_.back(), static_cast<unsigned long long>(server_.resident_bytes() >> 10),
        server_.descriptors(), server_.threads());
    std::fflush(stdout);
    CleanUp();
  }

  // Waits until the connections of attacks have ended, and closes their sessions.
  void CleanUp() {
    WaitForConnections(kOwnConnections);
    for (const v1::Session& session : connection_.Sessions("")) {
      if (!HonestStreams::Owns(session.session_id())) connection_.Close(session.session_id());
    }
  }

  void WaitForConnections(double most) {
    const Clock::time_point give_up = Clock::now() + seconds(30);
    double open = most + 1;
    while (open > most && Clock::now() < give_up) {
      std::this_thread::sleep_for(milliseconds(100));
      open =
          SampleValue(Scrape(server_.metrics_port()), "longstream_connections", {{"port", "grpc"}})
              .value_or(most + 1);
    }
    if (open > most) {
      Fault(std::to_string(open) + " connections are open after all attackers have left");
    }
  }

  // Ends everything and returns what is left. The caches and the heap are filled by honest streams
  // and emptied before, because what they keep depends on what was closed last.
  Holding Idle() {
    honest_->Stop();
    CleanUp();
    honest_->Start();
    std::this_thread::sleep_for(seconds(1));
    honest_->Stop();
    WaitForConnections(kOwnConnections - kStreams);
    std::this_thread::sleep_for(seconds(1));  // the heap is trimmed when no turn runs
    if (!connection_.Sessions("").empty()) Fault("sessions are left");
    return {server_.resident_bytes(), server_.descriptors(), server_.threads()};
  }

  void ExpectFlat(const Holding& before, const Holding& after) {
    // The memory may grow by 4 % and 4 MiB, because the allocator's memory varies.
    if (after.bytes > before.bytes + before.bytes / 25 + (4u << 20)) Fault("resident memory grew");
    // gRPC keeps a few threads, and descriptors to wake them, for a while after a burst.
    if (after.descriptors > before.descriptors + 4) Fault("descriptors are left");
    if (after.threads > before.threads + 4) Fault("threads are left");
  }

  void ExpectEverythingTried() {
    for (const std::string& name : attacks_->Missing()) Fault("never tried: " + name);
    const size_t pairs = target_.methods.size() * NumWaysToMangle();
    if (options_.only.empty() && attacks_->counts().requests < pairs) {
      Fault("only " + std::to_string(attacks_->counts().requests) + " of " + std::to_string(pairs) +
            " mangled requests were tried");
    }
  }

  // No request of a client may be an error of the server, and attackers must not fill the log.
  void ExpectQuietLog() {
    std::istringstream lines(server_.Log());
    for (std::string line; std::getline(lines, line);) {
      const bool expected = line.find("\"level\":\"info\"") != std::string::npos;
      if (expected) continue;
      if (++log_lines_ <= 10) std::printf("%s\n", line.c_str());
      const bool failure = line.find("\"event\":\"call_failed\"") != std::string::npos ||
                           line.find("\"event\":\"turn_failed\"") != std::string::npos;
      if (failure) Fault("a client made the server fail a call");
    }
  }

  static std::string Tail(const std::string& text) {
    return text.substr(text.size() - std::min<size_t>(text.size(), 2000));
  }

  void Print(const Holding& before, const Holding& after) {
    for (const auto& [name, count] : attacks_->counts().attacks) {
      std::printf("%7d %s\n", count, name.c_str());
    }
    std::sort(kept_.begin(), kept_.end());
    const AttackCounts& counts = attacks_->counts();
    std::printf(
        "seed %u: %d attacks on %zu methods of %zu services, %.1f MiB, %.0f s of attacks; the "
        "attackers used %.2f processors\n"
        "honest: %d conversations, %.0f tokens/s, %.0f under attack: kept %.3f (periods: least "
        "%.3f, median %.3f); the server used %.2f and %.2f processors\n"
        "resident %llu and %llu KiB, descriptors %zu and %zu, threads %zu and %zu; %d warnings "
        "and errors in the log; %d "
        "faults\n",
        options_.seed, counts.total(), target_.methods.size(), services_->services().size(),
        static_cast<double>(counts.sent) / (1 << 20), attacked_.seconds,
        counts.processor_seconds / (warm_up_.seconds + attacked_.seconds), honest_->conversations(),
        undisturbed_.rate(), attacked_.rate(), attacked_.rate() / undisturbed_.rate(),
        kept_.front(), kept_[kept_.size() / 2], undisturbed_.server_seconds / undisturbed_.seconds,
        attacked_.server_seconds / attacked_.seconds,
        static_cast<unsigned long long>(before.bytes >> 10),
        static_cast<unsigned long long>(after.bytes >> 10), before.descriptors, after.descriptors,
        before.threads, after.threads, log_lines_, faults_);
  }

  const Options options_;
  ServerProcess server_;
  client::Connection connection_;
  std::optional<RemoteServices> services_;
  Target target_;
  std::optional<AttackThreads> attacks_;
  std::optional<HonestStreams> honest_;
  Speed warm_up_;
  Speed undisturbed_;
  Speed attacked_;
  std::vector<double> kept_;  // by cycle
  int log_lines_ = 0;         // that are warnings or errors
  int faults_ = 0;
};

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  CLI::App app("Hostile clients attack a longstream-server");
  longstream::Options options;
  app.add_option("server", options.binary, "longstream-server")->required();
  app.add_option("models", options.models, "directory of the demo models")->required();
  app.add_option("--seed", options.seed, "of the attacks")->capture_default_str();
  app.add_option("--seconds", options.attacked, "seconds of attacks after the warm-up")
      ->capture_default_str();
  app.add_option("--period", options.period, "seconds of one period of attacks")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--undisturbed", options.undisturbed, "seconds without attacks before each period")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--rate", options.rate, "attacks a second")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--only", options.only, "make only attacks whose names contain this text");
  app.add_option("--least-kept", options.least_kept,
                 "the share of tokens a second that honest clients must keep")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    const longstream::TemporaryDirectory files;
    const std::string configuration =
        files.Write("server.yaml", longstream::Configuration(options.models));
    return longstream::HostileSoak(options, configuration).Run() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("FAULT: %s\n", error.what());
    return 1;
  }
}
