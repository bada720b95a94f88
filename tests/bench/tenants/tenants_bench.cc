// Measures what one tenant notices of another: the time of a call that names another tenant's
// session, and the latency of tokens while the other tenant floods the server.
#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "kernels/core/thread_pool.h"
#include "service/models/host.h"
#include "service/models/plugin.h"
#include "service/serving/model_registry.h"
#include "service/serving/reads/stored_count.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/bench/program/bench_program.h"
#include "tests/bench/timing.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

struct Flags {
  std::string plugin;
  std::string model;
  uint64_t lookups = 20000;
  uint64_t sessions = 1000;  // of the other tenant, for the lookups
  uint64_t tokens = 600;     // that the other tenant generates while its latency is measured
  uint64_t prompt = 2000;    // tokens of a prompt of the flood
  int callers = 16;          // threads of the flood
  uint64_t turns = 4;        // the quota of the tenant that floods
};

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// A server without gRPC: two tenants, a store and one model.
class Server {
 public:
  explicit Server(const Flags& flags)
      : host_(pool_.AsExecutor(), [](LogSeverity, std::string_view) {}) {
    absl::StatusOr<std::shared_ptr<const Plugin>> plugin = Plugin::Load(flags.plugin);
    Check(plugin.status());
    auto store = store::SqliteStore::Open(directory_.string() + "/store", {});
    Check(store.status());
    store_ = *std::move(store);
    commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
    ModelRegistry::Options options;
    options.plugins = {*std::move(plugin)};
    options.host = &host_;
    options.metrics = &registry_;
    options.engine.executor = pool_.AsExecutor();
    options.tenants = {
        {.name = "flood",
         .quotas = {.sessions = 100, .session_bytes = uint64_t{256} << 20, .turns = flags.turns}},
        {.name = "other", .quotas = {}}};
    ModelSource source;
    source.name = "m";
    source.directory = flags.model;
    models_ = std::make_unique<ModelRegistry>(options, std::vector<ModelSource>{source}, nullptr);
    Check(models_->WaitUntilLoaded());
    SessionManager::Options manager;
    manager.store = store_.get();
    manager.commits = commits_.get();
    Check(CountStoredSessions(*store_, models_->tenants()));
    sessions_ = std::make_unique<SessionManager>(models_.get(), manager);
  }

  SessionManager& sessions() { return *sessions_; }
  TenantUse UseOf(const char* tenant) { return (*models_->tenants().Find(tenant))->use(); }

  absl::StatusOr<SessionId> Open(const std::string& tenant, Durability durability) {
    absl::Notification done;
    absl::StatusOr<SessionView> opened = absl::UnknownError("");
    sessions_->OpenSession(tenant, "m", std::nullopt, std::nullopt,
                           [&](absl::StatusOr<SessionView> view) {
                             opened = std::move(view);
                             done.Notify();
                           },
                           {.durability = durability});
    done.WaitForNotification();
    if (!opened.ok()) return opened.status();
    return opened->id;
  }
  void Close(const SessionKey& key) {
    absl::Notification done;
    sessions_->CloseSession(key, [&](const absl::StatusOr<uint64_t>&) { done.Notify(); });
    done.WaitForNotification();
  }
  absl::StatusOr<TurnHandle> Begin(const SessionKey& key, uint64_t prompt, uint64_t tokens) {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf(key);
    if (!turn.ok()) return turn.status();
    if (absl::Status status = turn->Lease(); !status.ok()) return status;
    TurnRequest request;
    for (uint64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(static_cast<int32_t>(1 + (7 * i + prompt) % 200));
    }
    request.max_tokens = tokens;
    TurnHandle handle = turn->Make(std::move(request), nullptr);
    if (absl::Status status = turn->Start(handle); !status.ok()) return status;
    return handle;
  }

 private:
  const TemporaryDirectory directory_;
  ThreadPool pool_{std::max(1u, std::thread::hardware_concurrency())};
  Host host_;
  prometheus::Registry registry_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<SessionManager> sessions_;
};

// Reads a turn to its end. Adds the times between two deltas to *gaps.
void ReadToEnd(TurnHandle handle, std::vector<double>* gaps) {
  std::chrono::steady_clock::time_point last;
  bool has_last = false;
  while (true) {
    const TurnStream::Item item = handle.Next();
    if (std::holds_alternative<TurnEnd>(item)) return;
    const auto* event = std::get_if<TurnEvent>(&item);
    if (event == nullptr) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      continue;
    }
    const auto* delta = std::get_if<DeltaEvent>(event);
    if (delta == nullptr) continue;
    handle.Delivered(delta->position);
    const auto now = std::chrono::steady_clock::now();
    if (has_last && gaps != nullptr) gaps->push_back(Seconds(now - last));
    last = now;
    has_last = true;
  }
}

void MeasureLookups(const Flags& flags, Server& server) {
  std::vector<SessionId> theirs;
  for (uint64_t i = 0; i < flags.sessions; ++i) {
    absl::StatusOr<SessionId> id = server.Open("other", Durability::kDefault);
    Check(id.status());
    theirs.push_back(*id);
  }
  std::vector<double> foreign, unknown;
  const auto measure = [&](const SessionId& id, std::vector<double>* times) {
    const auto begin = std::chrono::steady_clock::now();
    const bool found = server.sessions().View({"flood", id}).ok();
    times->push_back(Seconds(std::chrono::steady_clock::now() - begin));
    if (found) throw std::runtime_error("a session of another tenant was found");
  };
  for (uint64_t i = 0; i < flags.lookups; ++i) {
    const SessionId id = SessionId::Random();
    // Both kinds take turns in going first.
    if (i % 2 == 0) measure(theirs[i % theirs.size()], &foreign);
    measure(id, &unknown);
    if (i % 2 == 1) measure(theirs[i % theirs.size()], &foreign);
  }
  for (const auto& [name, times] : {std::pair{"another tenant's session", &foreign},
                                    std::pair{"an unknown session", &unknown}}) {
    std::printf("%-26s %8.2f us median, %8.2f us p90, %8.2f us p99\n", name,
                1e6 * Percentile(*times, 0.5), 1e6 * Percentile(*times, 0.9),
                1e6 * Percentile(*times, 0.99));
  }
  for (const SessionId& id : theirs) server.Close({"other", id});
}

// The latencies of the other tenant while `load` runs on as many threads. `load` is called again
// and again with the number of its thread.
std::vector<double> MeasureLatency(const Flags& flags, Server& server, int threads,
                                   const std::function<void(int)>& load) {
  std::atomic<bool> stops{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < threads; ++i) {
    callers.emplace_back([&, i] {
      while (!stops) load(i);
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::vector<double> gaps;
  absl::StatusOr<SessionId> id = server.Open("other", Durability::kMemory);
  Check(id.status());
  absl::StatusOr<TurnHandle> turn = server.Begin({"other", *id}, 100, flags.tokens);
  Check(turn.status());
  ReadToEnd(*turn, &gaps);
  server.Close({"other", *id});
  stops = true;
  for (std::thread& caller : callers) caller.join();
  return gaps;
}

void Print(const char* name, const std::vector<double>& gaps) {
  std::printf("%-42s ITL %7.2f ms p50, %7.2f ms p99, %7.2f ms max, %zu tokens\n", name,
              1e3 * Percentile(gaps, 0.5), 1e3 * Percentile(gaps, 0.99),
              1e3 * Percentile(gaps, 1.0), gaps.size() + 1);
}

void MeasureFlood(const Flags& flags, Server& server) {
  const std::vector<double> alone = MeasureLatency(flags, server, 0, nullptr);
  Print("alone", alone);
  // As many turns as the quota allows, one after the other on each session.
  const auto one_turn = [&](int) {
    const absl::StatusOr<SessionId> id = server.Open("flood", Durability::kMemory);
    if (!id.ok()) return;
    absl::StatusOr<TurnHandle> turn = server.Begin({"flood", *id}, flags.prompt, 200);
    if (turn.ok()) ReadToEnd(*turn, nullptr);
    server.Close({"flood", *id});
  };
  const std::vector<double> within =
      MeasureLatency(flags, server, static_cast<int>(flags.turns), one_turn);
  Print("the other tenant stays within its quota", within);
  // Many callers, which do not wait after a refusal: they open sessions, and begin long turns.
  const auto flood = [&](int) {
    const absl::StatusOr<SessionId> id = server.Open("flood", Durability::kMemory);
    if (!id.ok()) return std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 8; ++i) {
      absl::StatusOr<TurnHandle> turn =
          server.Begin({"flood", *id}, (1 + i % 4) * flags.prompt / 2, 200);
      if (turn.ok()) {
        ReadToEnd(*turn, nullptr);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    server.Close({"flood", *id});
  };
  const std::vector<double> flooded = MeasureLatency(flags, server, flags.callers, flood);
  Print("the other tenant floods", flooded);
  const TenantUse use = server.UseOf("flood");
  std::printf("p99 of the flood / p99 within the quota: %.2f; refusals:",
              Percentile(flooded, 0.99) / Percentile(within, 0.99));
  for (size_t i = 0; i < kNumQuotas; ++i) {
    std::printf(" %s %llu", NameOf(static_cast<Quota>(i)),
                static_cast<unsigned long long>(use.refusals[i]));
  }
  std::printf("\n");
}

int Main(const Flags& flags) {
  Server server(flags);
  MeasureLookups(flags, server);
  MeasureFlood(flags, server);
  return 0;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  longstream::Flags flags;
  CLI::App app("What one tenant notices of another.");
  app.option_defaults()->always_capture_default();
  app.add_option("--plugin", flags.plugin, "hypenet.cpu.so or another")->required();
  app.add_option("--model", flags.model, "the directory of a model")->required();
  app.add_option("--lookups", flags.lookups);
  app.add_option("--sessions", flags.sessions);
  app.add_option("--tokens", flags.tokens);
  app.add_option("--prompt", flags.prompt);
  app.add_option("--callers", flags.callers);
  app.add_option("--turns", flags.turns);
  return longstream::RunProgram("tenants_bench", app, argc, argv,
                                [&] { return longstream::Main(flags); });
}
