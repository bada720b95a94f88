// Hostile clients attack the ports of a server while 16 honest clients generate. Periods with
// attacks and periods without take turns. Every honest turn must give the tokens that it gives when
// it runs alone. At the end, when all connections and sessions are closed, the server must hold no
// more memory, descriptors and threads than after the warm-up. With --least-kept the honest clients
// must also keep that share of the tokens a second of the periods without attacks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/channel.h"
#include "client/connection.h"
#include "longstream/peer/v1/peer.pb.h"
#include "tests/e2e/hostile/attack_threads.h"
#include "tests/e2e/hostile/honest_streams.h"
#include "tests/e2e/hostile/pauses.h"
#include "tests/e2e/hostile/remote_method.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/free_port.h"
#include "tests/processes/postgres_server.h"
#include "tests/processes/server_process.h"
#include "tests/service/security/token_row.h"
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
constexpr size_t kMoreThreads = 4;  // that the server may have at the end
constexpr milliseconds kPatience{60000};
// If this program itself was stopped for longer, its figures say nothing about the server.
constexpr double kLongestPause = 1.0;  // seconds

struct Options {
  std::string binary;
  std::string models;
  uint32_t seed = 1;
  int attacked = 600;     // seconds of attacks
  int period = 15;        // seconds of one period of attacks
  int undisturbed = 5;    // seconds of one period without attacks
  double rate = 40;       // attacks a second
  std::string only;       // makes only attacks whose names contain this
  int warm_up = 60;       // seconds of attacks before the first measurement
  double least_kept = 0;  // 0: the speed is only reported
  // The server asks for credentials. A third of the attacks has one of a client.
  bool credentials = false;
  // The server is a replica of a fleet and asks for credentials. The attacks go to its listener of
  // peers; a quarter of them has the token of a client, and a quarter that of a peer.
  bool peers = false;
};

// The tokens of the honest clients, of the attackers, of this program and of a replica.
constexpr const char* kHonestToken = "honest";
constexpr const char* kHostileToken = "hostile";
constexpr const char* kOperatorToken = "operator";
constexpr const char* kPeerToken = "peer-0123456789ab";

// The limits of the listener of peers (service/server/peer/peer_server.cc).
constexpr size_t kMorePeerBytes = 64 << 10;
constexpr size_t kMaxPeerConnections = 256;

std::string CredentialRows() {
  std::string rows;
  for (const auto& [token, role] :
       {std::pair(kHonestToken, "client"), std::pair(kHostileToken, "client"),
        std::pair(kOperatorToken, "operator"), std::pair(kPeerToken, "peer")}) {
    rows += TokenRow(token, std::string("role=") + role);
  }
  return rows;
}

client::ChannelSecurity With(const Options& options, const char* token) {
  client::ChannelSecurity security;
  if (options.credentials) security.token = token;
  return security;
}

size_t NumThreads(const std::map<std::string, size_t>& by_name) {
  size_t count = 0;
  for (const auto& [name, number] : by_name) count += number;
  return count;
}

// The resources that the server holds when it has nothing to do.
struct Holding {
  uint64_t bytes = 0;
  size_t descriptors = 0;
  std::map<std::string, size_t> threads;  // by name

  size_t num_threads() const { return NumThreads(threads); }
};

// Tokens of the honest streams and processor time of the server in periods of one kind.
struct Speed {
  uint64_t tokens = 0;
  double seconds = 0;
  double server_seconds = 0;

  double rate() const { return static_cast<double>(tokens) / seconds; }
  Speed& operator+=(const Speed& other) {
    tokens += other.tokens;
    seconds += other.seconds;
    server_seconds += other.server_seconds;
    return *this;
  }
};

// The server as a replica of a fleet.
struct PeerOptions {
  int port = 0;  // of its listener; 0: it is none
  std::string token_file;
  std::string store;

  std::string Configuration() const {
    if (port == 0) return "";
    return "fleet: {replica_id: r, peer_listen: '127.0.0.1:" + std::to_string(port) +
           "', token_file: '" + token_file + "'}\nstore: {url: '" + store +
           "'}\ndrain_timeout: 1s\n";
  }
};

// The methods of the listener of peers.
std::vector<RemoteMethod> PeerMethods() {
  const auto* const service = peer::v1::FetchRequest::descriptor()->file()->service(0);
  std::vector<RemoteMethod> methods;
  for (int i = 0; i < service->method_count(); ++i) {
    const auto& method = *service->method(i);
    methods.push_back({"/" + service->full_name() + "/" + method.name(), method.input_type()});
  }
  return methods;
}

// `credentials`: the file of credentials; empty: none are asked for.
std::string Configuration(const std::string& models, const std::string& credentials) {
  std::string yaml = "security: {credentials: '" + credentials +
                     "'}\nmax_message_bytes: " + std::to_string(kMaxMessageBytes) +
                     "\nconnections: {max: " + std::to_string(kMaxConnections) +
                     ", handshake_timeout: 2s, idle_timeout: 5s}\nmodels:\n";
  for (const char* model : {"dense", "hwfa2", "hypenet"}) {
    yaml += std::string("- {name: ") + model + ", directory: " + models + "/" + model + "}\n";
  }
  return yaml;
}

class HostileSoak {
 public:
  // `peer_port`: of the listener of peers, if the attacks go there.
  HostileSoak(const Options& options, const std::string& configuration, int peer_port)
      : options_(options),
        server_(options.binary, {"--config", configuration}),
        connection_(server_.address(), With(options, kHonestToken)) {
    for (const char* model : {"dense", "hwfa2", "hypenet"}) {
      connection_.WaitUntilServing(model, kPatience);
    }
    services_.emplace(server_.address(), With(options, kOperatorToken));
    target_ = {
        .port = server_.port(),
        .metrics_port = server_.metrics_port(),
        .max_message_bytes = kMaxMessageBytes,
        .max_connections = kMaxConnections,
        .methods = services_->methods(),
        .authorizations = options.credentials
                              ? std::vector<std::string>{"", "Bearer wrong",
                                                         std::string("Bearer ") + kHostileToken}
                              : std::vector<std::string>{}};
    if (options.peers) {
      target_.port = peer_port;
      target_.max_message_bytes += kMorePeerBytes;
      target_.max_connections = kMaxPeerConnections;
      target_.methods = PeerMethods();
      target_.authorizations.push_back(std::string("Bearer ") + kPeerToken);
    }
    attacks_.emplace(target_, options.seed, options.rate, options.only);
    honest_.emplace(server_.address(), With(options, kHonestToken),
                    std::vector<std::string>{"dense", "hwfa2", "hypenet"}, kStreams);
  }

  // Returns the number of faults.
  int Run() {
    honest_->Start();
    warm_up_ = Measure([&] {
      attacks_->RunEach(kWarmUps);
      attacks_->Run(Clock::now() + seconds(options_.warm_up));
    });
    const Holding before = Idle(std::numeric_limits<size_t>::max());
    honest_->Start();
    RunCycles();
    TryTheRest();
    const Holding after = Idle(before.num_threads() + kMoreThreads);

    ExpectFlat(before, after);
    if (MemoryGrew(before.bytes, after.bytes)) ExpectMemoryStays(before, after);
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
  Speed Measure(const Body& body) {
    const Clock::time_point begin = Clock::now();
    const uint64_t tokens = honest_->tokens();
    const double server_seconds = server_.processor_seconds();
    body();
    Speed speed;
    speed.tokens = honest_->tokens() - tokens;
    speed.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    speed.server_seconds = server_.processor_seconds() - server_seconds;
    return speed;
  }

  void RunCycles() {
    const int wanted = (options_.attacked + options_.period - 1) / options_.period;
    for (int counted = 0; counted < wanted;) {
      if (RunCycle()) {
        ++counted;
      } else if (++stopped_cycles_ > wanted) {
        return Fault("this program was stopped in more than " + std::to_string(wanted) + " cycles");
      }
    }
  }

  // Returns whether the cycle counts: this program was not stopped in it.
  bool RunCycle() {
    pauses_.Take();
    const Speed alone =
        Measure([&] { std::this_thread::sleep_for(seconds(options_.undisturbed)); });
    const Speed attacked = Measure([&] { attacks_->Run(Clock::now() + seconds(options_.period)); });
    const double pause = pauses_.Take();
    const double kept = attacked.rate() / alone.rate();
    std::printf("%6.0f tokens/s, %6.0f under attack: %.3f; %llu KiB, %zu descriptors\n",
                alone.rate(), attacked.rate(), kept,
                static_cast<unsigned long long>(server_.resident_bytes() >> 10),
                server_.descriptors());
    const bool counts = pause <= kLongestPause;
    if (counts) {
      undisturbed_ += alone;
      attacked_ += attacked;
      kept_.push_back(kept);
    } else {
      std::printf("       this program was stopped for %.1f s: the cycle does not count\n", pause);
    }
    std::fflush(stdout);
    CleanUp();
    return counts;
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

  // gRPC makes threads for a burst of timers. A thread ends when it had nothing to do for 30 s.
  void WaitForThreads(size_t most) const {
    const Clock::time_point give_up = Clock::now() + seconds(90);
    while (NumThreads(server_.threads()) > most && Clock::now() < give_up) {
      std::this_thread::sleep_for(seconds(1));
    }
  }

  // Ends everything and returns what is left. The caches and the heap are filled by honest streams
  // and emptied before, because what they keep depends on what was closed last.
  Holding Idle(size_t most_threads) {
    honest_->Stop();
    CleanUp();
    WaitForThreads(most_threads);
    honest_->Start();
    std::this_thread::sleep_for(seconds(1));
    honest_->Stop();
    WaitForConnections(kOwnConnections - kStreams);
    std::this_thread::sleep_for(seconds(1));  // the heap is trimmed when no turn runs
    if (!connection_.Sessions("").empty()) Fault("sessions are left");
    return {server_.resident_bytes(), server_.descriptors(), server_.threads()};
  }

  // The memory may grow by 4 % and 4 MiB, because the allocator's memory varies.
  static bool MemoryGrew(uint64_t before, uint64_t after) {
    return after > before + before / 25 + (4u << 20);
  }

  // Attacks for as long again. A leak grows each time. But the heap of a server that has run for
  // half a minute may still be growing to the size that it keeps: before the attacks it was
  // measured with 99 to 111 MiB, and after two minutes of them no larger.
  void ExpectMemoryStays(const Holding& before, const Holding& after) {
    honest_->Start();
    attacks_->Run(Clock::now() + seconds(options_.attacked));
    CleanUp();
    const uint64_t again = Idle(before.num_threads() + kMoreThreads).bytes;
    std::printf("resident memory grew from %llu to %llu KiB, and then to %llu KiB\n",
                static_cast<unsigned long long>(before.bytes >> 10),
                static_cast<unsigned long long>(after.bytes >> 10),
                static_cast<unsigned long long>(again >> 10));
    if (MemoryGrew(after.bytes, again)) Fault("resident memory grew twice");
  }

  void ExpectFlat(const Holding& before, const Holding& after) {
    // gRPC keeps a few threads, and descriptors to wake them.
    if (after.descriptors > before.descriptors + 4) Fault("descriptors are left");
    if (after.num_threads() > before.num_threads() + kMoreThreads) Fault("threads are left");
    for (const auto& [name, count] : after.threads) {
      const auto found = before.threads.find(name);
      const size_t earlier = found == before.threads.end() ? 0 : found->second;
      if (count != earlier) {
        std::printf("threads called %s: %zu, before %zu\n", name.c_str(), count, earlier);
      }
    }
  }

  // How many pairs of a method and a way to mangle its request there are to try.
  size_t NumPairs() const {
    return options_.only.empty() ? target_.methods.size() * NumWaysToMangle() : 0;
  }

  // Goes on, because a slow machine tries fewer attacks in the same time.
  void TryTheRest() {
    const Clock::time_point give_up = Clock::now() + 2 * seconds(options_.attacked);
    while (Clock::now() < give_up &&
           (!attacks_->Missing().empty() || attacks_->counts().requests < NumPairs())) {
      attacks_->Run(Clock::now() + seconds(options_.period));
      CleanUp();
    }
  }

  void ExpectEverythingTried() {
    for (const std::string& name : attacks_->Missing()) Fault("never tried: " + name);
    const size_t pairs = NumPairs();
    if (attacks_->counts().requests < pairs) {
      Fault("only " + std::to_string(attacks_->counts().requests) + " of " + std::to_string(pairs) +
            " mangled requests were tried");
    }
  }

  // No request of a client may be an error of the server, and attackers must not fill the log.
  void ExpectQuietLog() {
    std::istringstream lines(server_.Log());
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"level\":\"info\"") != std::string::npos) continue;
      ++log_lines_;
      const bool failure = line.find("\"event\":\"call_failed\"") != std::string::npos ||
                           line.find("\"event\":\"turn_failed\"") != std::string::npos;
      if (failure) Fault("a client made the server fail a call: " + line);
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
        "honest: %d conversations, %.0f tokens/s, %.0f under attack: kept %.3f (%zu cycles: least "
        "%.3f, median %.3f; %d more in which this program was stopped); the server used %.2f and "
        "%.2f processors\n"
        "resident %llu and %llu KiB, descriptors %zu and %zu, threads %zu and %zu; %d warnings "
        "and errors in the log; %d "
        "faults\n",
        options_.seed, counts.total(), target_.methods.size(), services_->services().size(),
        static_cast<double>(counts.sent) / (1 << 20), attacked_.seconds,
        counts.processor_seconds / (warm_up_.seconds + attacked_.seconds), honest_->conversations(),
        undisturbed_.rate(), attacked_.rate(), attacked_.rate() / undisturbed_.rate(), kept_.size(),
        kept_.empty() ? 0 : kept_.front(), kept_.empty() ? 0 : kept_[kept_.size() / 2],
        stopped_cycles_, undisturbed_.server_seconds / undisturbed_.seconds,
        attacked_.server_seconds / attacked_.seconds,
        static_cast<unsigned long long>(before.bytes >> 10),
        static_cast<unsigned long long>(after.bytes >> 10), before.descriptors, after.descriptors,
        before.num_threads(), after.num_threads(), log_lines_, faults_);
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
  Pauses pauses_;
  std::vector<double> kept_;  // by cycle
  int stopped_cycles_ = 0;    // that do not count
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
  app.add_option("--warm-up", options.warm_up, "seconds of attacks before the first measurement")
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
  app.add_flag("--credentials", options.credentials,
               "the server asks for credentials, and a third of the attacks has one");
  app.add_flag("--peers", options.peers,
               "attack the listener of peers of a replica; needs PostgreSQL");
  CLI11_PARSE(app, argc, argv);
  options.credentials |= options.peers;
  try {
    const longstream::TemporaryDirectory files;
    const std::string credentials =
        options.credentials ? files.WriteSecret("credentials", longstream::CredentialRows()) : "";
    std::optional<longstream::PostgresServer> database;
    longstream::PeerOptions peers;
    if (options.peers) {
      database.emplace();
      peers = {longstream::FreePort(), files.Write("token", longstream::kPeerToken),
               database->Url(database->NewDatabase())};
      std::filesystem::permissions(peers.token_file, std::filesystem::perms::owner_read);
    }
    const std::string configuration =
        files.Write("server.yaml",
                    peers.Configuration() + longstream::Configuration(options.models, credentials));
    return longstream::HostileSoak(options, configuration, peers.port).Run() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("FAULT: %s\n", error.what());
    return 1;
  }
}
