// Measures what the turns of clients notice of a shadow: turns that run half of the time, with and
// without a replay of each of them, in alternation.
#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "kernels/core/thread_pool.h"
#include "service/models/host.h"
#include "service/models/plugin.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "service/shadow/shadow_runner.h"
#include "tests/bench/program/bench_program.h"
#include "tests/bench/timing.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/wait_for_session.h"

namespace longstream {
namespace {

struct Flags {
  std::vector<std::string> plugins;
  std::string model;
  std::string shadow;
  int pairs = 20;  // of a round with and a round without the shadow
  int turns = 4;   // of a round
  int clients = 1;
  uint64_t prompt = 256;
  uint64_t tokens = 128;
};

// A server without gRPC: a model, its shadow, and the aliases "with" and "without".
class Server {
 public:
  explicit Server(const Flags& flags)
      : host_(pool_.AsExecutor(), [](LogSeverity, std::string_view) {}) {
    ModelRegistry::Options options;
    for (const std::string& file : flags.plugins) {
      absl::StatusOr<std::shared_ptr<const Plugin>> plugin = Plugin::Load(file);
      Check(plugin.status());
      options.plugins.push_back(*std::move(plugin));
    }
    options.host = &host_;
    options.metrics = &registry_;
    options.engine.executor = pool_.AsExecutor();
    options.engine.live_work = live_;
    std::vector<ModelSource> sources(2);
    sources[0].name = "m";
    sources[0].directory = flags.model;
    sources[1].name = "s";
    sources[1].directory = flags.shadow;
    models_ = std::make_unique<ModelRegistry>(options, sources, nullptr);
    Check(models_->WaitUntilLoaded());
    SessionManager::Options manager;
    manager.aliases = std::make_shared<AliasTable>(std::vector<AliasConfig>{
        {"with", {{"m", 1}}, AliasShadow{"s", 1}}, {"without", {{"m", 1}}}});
    manager.shadow_tap = [queue = queue_](const std::string& model) {
      return queue->TapFor(model);
    };
    sessions_ = std::make_unique<SessionManager>(models_.get(), manager);
    runner_ = std::make_unique<ShadowRunner>(
        queue_, [this](std::string_view model) { return models_->Find(model); }, live_, &metrics_);
  }

  // Runs a turn in a new session and returns how long it took. Adds its latencies.
  std::chrono::steady_clock::duration Run(const char* alias, const Flags& flags, int seed,
                                          std::vector<double>* gaps, std::vector<double>* firsts) {
    const SessionId id = Open(alias);
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", id});
    Check(turn.status());
    Check(turn->Lease());
    TurnRequest request;
    for (uint64_t i = 0; i < flags.prompt; ++i) {
      const uint64_t token = 1 + (7 * i + 13 * static_cast<uint64_t>(seed)) % 200;
      request.prompt.push_back(static_cast<int32_t>(token));
    }
    request.max_tokens = flags.tokens;
    absl::Mutex mutex;
    bool woken = true;
    TurnHandle handle = turn->Make(std::move(request), [&] {
      absl::MutexLock lock(&mutex);
      woken = true;
    });
    const auto begin = std::chrono::steady_clock::now();
    Check(turn->Start(handle));
    auto last = begin;
    bool has_first = false;
    while (true) {
      const TurnStream::Item item = handle.Next();
      if (std::holds_alternative<TurnEnd>(item)) break;
      const auto* const event = std::get_if<TurnEvent>(&item);
      if (event == nullptr) {
        absl::MutexLock lock(&mutex);
        mutex.Await(absl::Condition(&woken));
        woken = false;
        continue;
      }
      const auto* const delta = std::get_if<DeltaEvent>(event);
      if (delta == nullptr) continue;
      handle.Delivered(delta->position);
      const auto now = std::chrono::steady_clock::now();
      std::vector<double>* const times = has_first ? gaps : firsts;
      times->push_back(std::chrono::duration<double>(now - last).count());
      last = now;
      has_first = true;
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    CloseAndWait(*sessions_, {"", id}).IgnoreError();
    return time;
  }

  double Replayed() const { return MetricValue(registry_, "longstream_shadow_turns_total"); }
  double Dropped() const { return MetricValue(registry_, "longstream_shadow_dropped_turns_total"); }

 private:
  SessionId Open(const char* alias) {
    const absl::StatusOr<SessionView> opened = WaitForSession([&](SessionManager::Opened done) {
      sessions_->OpenSession("", alias, std::nullopt, std::nullopt, std::move(done));
    });
    Check(opened.status());
    return opened->id;
  }

  ThreadPool pool_{std::max(1u, std::thread::hardware_concurrency())};
  Host host_;
  prometheus::Registry registry_;
  ShadowMetrics metrics_{&registry_};
  const std::shared_ptr<LiveWork> live_ = std::make_shared<LiveWork>();
  const std::shared_ptr<ShadowQueue> queue_ =
      std::make_shared<ShadowQueue>(ShadowQueue::Limits{}, &metrics_);
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<SessionManager> sessions_;
  std::unique_ptr<ShadowRunner> runner_;
};

struct Latencies {
  std::vector<double> gaps;
  std::vector<double> firsts;

  void Add(const Latencies& other) {
    gaps.insert(gaps.end(), other.gaps.begin(), other.gaps.end());
    firsts.insert(firsts.end(), other.firsts.begin(), other.firsts.end());
  }
};

// Each client runs turns and pauses after each for as long as it took.
Latencies Round(Server& server, const char* alias, const Flags& flags, int number) {
  std::vector<Latencies> of(static_cast<size_t>(flags.clients));
  std::vector<std::thread> clients;
  for (size_t client = 0; client < of.size(); ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < flags.turns; ++i) {
        const int seed = (number * flags.turns + i) * flags.clients + static_cast<int>(client);
        std::this_thread::sleep_for(
            server.Run(alias, flags, seed, &of[client].gaps, &of[client].firsts));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  Latencies all;
  for (const Latencies& one : of) all.Add(one);
  return all;
}

void Print(const char* name, const Latencies& latencies) {
  std::printf("%-8s ITL %8.3f ms p50 %8.3f ms p99, TTFT %8.3f ms p50 %8.3f ms p99, %zu tokens\n",
              name, 1e3 * Percentile(latencies.gaps, 0.5), 1e3 * Percentile(latencies.gaps, 0.99),
              1e3 * Percentile(latencies.firsts, 0.5), 1e3 * Percentile(latencies.firsts, 0.99),
              latencies.gaps.size());
}

int Main(const Flags& flags) {
  Server server(flags);
  Round(server, "without", flags, 0);  // warms up
  Latencies with, without;
  std::vector<double> p50, p99;  // ratios of the pairs
  double turns = 0;
  for (int pair = 0; pair < flags.pairs; ++pair) {
    Latencies of[2];
    for (int i = 0; i < 2; ++i) {
      const bool has_shadow = (i + pair) % 2 == 0;  // both kinds take turns in going first
      of[has_shadow] = Round(server, has_shadow ? "with" : "without", flags, 2 * pair + i);
      if (!has_shadow) continue;
      // The other rounds are without shadows.
      turns += flags.turns * flags.clients;
      while (server.Replayed() + server.Dropped() < turns) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    p50.push_back(Percentile(of[1].gaps, 0.5) / Percentile(of[0].gaps, 0.5));
    p99.push_back(Percentile(of[1].gaps, 0.99) / Percentile(of[0].gaps, 0.99));
    without.Add(of[0]);
    with.Add(of[1]);
  }
  Print("without", without);
  Print("with", with);
  std::printf("all tokens, with / without: ITL p50 %.3f, p99 %.3f, TTFT p50 %.3f\n",
              Percentile(with.gaps, 0.5) / Percentile(without.gaps, 0.5),
              Percentile(with.gaps, 0.99) / Percentile(without.gaps, 0.99),
              Percentile(with.firsts, 0.5) / Percentile(without.firsts, 0.5));
  std::printf("median of %d pairs, with / without: ITL p50 %.3f, p99 %.3f\n", flags.pairs,
              Percentile(p50, 0.5), Percentile(p99, 0.5));
  std::printf("%.0f turns replayed, %.0f dropped\n", server.Replayed(), server.Dropped());
  // The limits for what clients notice of a shadow.
  constexpr double kMostP50 = 1.02;
  constexpr double kMostP99 = 1.1;
  const bool is_within = Percentile(p50, 0.5) <= kMostP50 && Percentile(p99, 0.5) <= kMostP99;
  return is_within ? 0 : 1;  // a ratio that is no number is not within
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  longstream::Flags flags;
  CLI::App app("What turns notice of their shadows.");
  app.option_defaults()->always_capture_default();
  app.add_option("--plugin", flags.plugins, "dense.cpu.so or others; may be repeated")->required();
  app.add_option("--model", flags.model, "the directory of the model")->required();
  app.add_option("--shadow", flags.shadow, "the directory of the model of the shadow")->required();
  app.add_option("--pairs", flags.pairs);
  app.add_option("--turns", flags.turns);
  app.add_option("--clients", flags.clients);
  app.add_option("--prompt", flags.prompt);
  app.add_option("--tokens", flags.tokens);
  return longstream::RunProgram("shadow_cost", app, argc, argv,
                                [&] { return longstream::Main(flags); });
}
