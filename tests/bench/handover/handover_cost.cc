// Measures what a handover costs: two replicas of a fleet share a PostgreSQL server of this
// program's own, and sessions go from one to the other.
//
// A session is prefilled once on the replica `home`; forks of it are measured. A turn has a prompt
// of 16 tokens. "turn where it is": on home. "turn elsewhere": the same turn, sent to the other
// replica, which fetches the session. "offer": the other replica is ended with SIGTERM, and hands
// the session over. "turn from the log": it is ended without time for that, so home claims the
// session and computes its caches again. Tokens are compared: each way must give the same ones.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/random_id.h"
#include "tests/bench/handover/handover_figures.h"
#include "tests/bench/handover/replica_pair.h"
#include "tests/bench/program/bench_program.h"
#include "tests/bench/timing.h"

namespace longstream::bench {
namespace {

struct Flags {
  std::string server;
  std::string models;
  std::vector<std::string> names = {"dense", "hwfa2", "hypenet"};
  std::vector<uint64_t> tokens = {1 << 10, 1 << 14, 1 << 16};
  int fetches = 9;
  int offers = 5;
  int recomputes = 3;
  int threads = 2;
  std::string json;
};

constexpr uint64_t kPromptTokens = 16;
constexpr uint32_t kAnswerTokens = 8;

v1::GenerateRequest TurnOf(const std::string& session, uint64_t tokens, uint32_t answer) {
  v1::GenerateRequest request;
  request.set_session_id(session);
  request.set_turn_id(client::RandomId());
  for (uint64_t i = 0; i < tokens; ++i) {
    request.mutable_input()->mutable_tokens()->add_ids(
        static_cast<int32_t>(1 + (7 * i + i / 250) % 250));
  }
  request.set_max_tokens(answer);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_sampling()->set_temperature(1.0f);
  request.mutable_sampling()->set_seed(tokens);
  return request;
}

struct Turn {
  double first_ms = 0;
  std::vector<int32_t> tokens;
  uint64_t lost = 0;  // tokens whose caches were not there
};

// Sends the turn again until it is answered, as clients of a fleet do. The time is that of the last
// call.
Turn Run(Replica& on, const v1::GenerateRequest& request) {
  const double until = Seconds() + 600;
  for (;;) {
    try {
      const client::Generation turn = on->Collect(request);
      if (turn.token_seconds.empty()) throw std::runtime_error("a turn has no tokens");
      const v1::TurnUsage& usage = turn.finish.usage();
      const bool has_come = usage.restore_source() == v1::RESTORE_SOURCE_PEER;
      const uint64_t restored = has_come ? 0 : usage.restored_tokens();
      return {1e3 * turn.token_seconds.front(), turn.token_ids,
              usage.recomputed_tokens() + restored};
    } catch (const client::CallError& error) {
      const grpc::StatusCode code = error.status().error_code();
      const bool again = code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::ABORTED;
      if (!again || Seconds() > until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void Expect(bool is_right, const std::string& wrong) {
  if (!is_right) throw std::runtime_error(wrong);
}

// Measures one model with one length of the history.
class Measurement {
 public:
  Measurement(ReplicaPair* pair, uint64_t tokens) : pair_(*pair) {
    figures_.model = pair->model();
    figures_.tokens = tokens;
    base_ = pair_.home()->Open(pair->model()).session_id();
    figures_.prefill_ms = Run(pair_.home(), TurnOf(base_, tokens, 1)).first_ms;
    // These turns also touch the memory that the measured ones need.
    const std::string session = Fork();
    expected_ = {Next(pair_.home(), session).tokens, Next(pair_.home(), session).tokens};
    pair_.home()->Close(session);
    Fetch(nullptr);
  }

  void MeasureFetches(int repeats) {
    for (int i = 0; i < repeats; ++i) {
      const std::string session = Fork();
      const Turn local = Next(pair_.home(), session);
      Expect(local.lost == 0, "a session that did not move has lost its caches");
      pair_.home()->Close(session);
      figures_.local.push_back(local.first_ms);
      Fetch(&figures_.fetched);
      figures_.later.push_back(figures_.fetched.first_token.back() - local.first_ms);
    }
  }

  void MeasureOffers(int repeats) {
    for (int i = 0; i < repeats; ++i) {
      const std::string session = Fork();
      Next(pair_.away(), session);
      const Received before = pair_.home().received();
      const double begin = Seconds();
      pair_.ReplaceAway(Ending::kDrained, [&] {
        figures_.ended.push_back(1e3 * (Seconds() - begin));
        Note(pair_.home().received() - before, &figures_.offered);
        Moved(session, 0, &figures_.offered.first_token);
      });
    }
  }

  void MeasureRecomputes(int repeats) {
    for (int i = 0; i < repeats; ++i) {
      const std::string session = Fork();
      Next(pair_.away(), session);
      pair_.ReplaceAway(Ending::kKilled,
                        [&] { Moved(session, figures_.tokens, &figures_.recomputed); });
    }
  }

  HandoverFigures TakeFigures() {
    pair_.home()->Close(base_);
    return figures_;
  }

 private:
  std::string Fork() { return pair_.home()->Fork(base_).session_id(); }
  static Turn Next(Replica& on, const std::string& session) {
    return Run(on, TurnOf(session, kPromptTokens, kAnswerTokens));
  }

  void Fetch(Moves* moves) {
    const std::string session = Fork();
    const Received before = pair_.away().received();
    const Turn turn = Next(pair_.away(), session);
    Expect(turn.tokens == expected_[0], "a session that was fetched has other tokens");
    Expect(turn.lost == 0, "a session that was fetched has come without its caches");
    const Received received = pair_.away().received() - before;
    Expect(received.sessions == 1, "the metrics have no handover");
    pair_.away()->Close(session);
    figures_.bytes = static_cast<uint64_t>(received.bytes);
    if (moves == nullptr) return;
    Note(received, moves);
    moves->first_token.push_back(turn.first_ms);
  }

  static void Note(const Received& received, Moves* moves) {
    moves->whole.push_back(1e3 * received.whole_seconds);
    moves->caches.push_back(1e3 * received.caches_seconds);
  }

  // The second turn of a session, which has come home.
  void Moved(const std::string& session, uint64_t least_lost, Times* first_token) {
    const Turn turn = Next(pair_.home(), session);
    Expect(turn.tokens == expected_[1], "a session that has come home has other tokens");
    Expect(turn.lost >= least_lost && (turn.lost == 0) == (least_lost == 0),
           "a session that has come home has lost the caches of " + std::to_string(turn.lost) +
               " tokens");
    first_token->push_back(turn.first_ms);
    pair_.home()->Close(session);
  }

  ReplicaPair& pair_;
  HandoverFigures figures_;
  std::string base_;
  std::vector<std::vector<int32_t>> expected_;  // of the first and the second turn of a fork
};

int Main(const Flags& flags) {
  nlohmann::ordered_json json = {{"threads", flags.threads},
                                 {"rows", nlohmann::ordered_json::array()}};
  PrintTitles();
  for (const std::string& name : flags.names) {
    const uint64_t most = *std::max_element(flags.tokens.begin(), flags.tokens.end());
    ReplicaPair pair(flags.server, flags.models, name, flags.threads, most + 1024);
    for (const uint64_t tokens : flags.tokens) {
      Measurement measurement(&pair, tokens);
      measurement.MeasureFetches(flags.fetches);
      measurement.MeasureOffers(flags.offers);
      measurement.MeasureRecomputes(flags.recomputes);
      const HandoverFigures figures = measurement.TakeFigures();
      Print(figures);
      json["rows"].push_back(ToJson(figures));
    }
  }
  if (!flags.json.empty() && !(std::ofstream(flags.json) << json.dump(1) << '\n')) {
    throw std::runtime_error(flags.json + " cannot be written");
  }
  return 0;
}

}  // namespace
}  // namespace longstream::bench

int main(int argc, char** argv) {
  longstream::bench::Flags flags;
  CLI::App app("The cost of handing a session from one replica of a fleet to another.");
  app.option_defaults()->always_capture_default();
  app.add_option("server", flags.server, "longstream-server")->required();
  app.add_option("models", flags.models, "directory of the models")->required();
  app.add_option("--model", flags.names, "their names in it");
  app.add_option("--tokens", flags.tokens, "lengths of the history");
  app.add_option("--fetches", flags.fetches)->check(CLI::Range(1, 10000));
  app.add_option("--offers", flags.offers)->check(CLI::Range(0, 1000));
  app.add_option("--recomputes", flags.recomputes)->check(CLI::Range(0, 1000));
  app.add_option("--threads", flags.threads, "of each server")->check(CLI::Range(1, 1024));
  app.add_option("--json", flags.json, "file for the figures");
  return longstream::RunProgram("handover_cost", app, argc, argv, [&] {
    flags.models = std::filesystem::absolute(flags.models);
    return longstream::bench::Main(flags);
  });
}
