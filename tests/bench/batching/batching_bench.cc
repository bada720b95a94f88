// Continuous batching with the engine around the steps: how many tokens per second a model
// generates for many streams at once, and how much of a step the host does not wait for the device.
// Needs a plugin that times its steps (tests/bench/gpu/plugin).
#include <prometheus/registry.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn.h"
#include "service/metrics/model_metrics.h"
#include "service/models/host.h"
#include "service/models/plugin.h"
#include "service/models/served_model.h"
#include "service/sessions/turn_lease.h"
#include "tests/bench/plans/bench_plans.h"
#include "tests/bench/program/bench_program.h"

namespace longstream {
namespace {

struct Flags {
  std::string plugin;
  std::string shape = "2b";
  std::string plan = "dense";
  std::vector<uint32_t> streams = {1, 16, 64, 256};
  uint32_t prompt = 64;
  uint64_t tokens = 512;
};

// Prompt rows of a step beside its decode rows.
constexpr uint32_t kPromptRows = 512;

// A new directory with a config.json, which the destructor removes.
class ModelDirectory {
 public:
  explicit ModelDirectory(const std::string& config) {
    std::string path = (std::filesystem::temp_directory_path() / "batching_bench.XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error(path + " cannot be made");
    path_ = path;
    std::ofstream(path_ / "config.json") << config;
  }
  ~ModelDirectory() { std::filesystem::remove_all(path_); }
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// A model with an engine whose batch has a place for each stream.
class Served {
 public:
  Served(const Flags& flags, const std::string& directory, uint32_t streams)
      : host_(Executor{}, [streams](LogSeverity, std::string_view text) { Log(streams, text); }) {
    const std::vector<std::shared_ptr<const Plugin>> plugins = {Take(Plugin::Load(flags.plugin))};
    ModelSource source;
    source.name = "m";
    source.directory = directory;
    Engine::Options options;
    source.max_batch_sequences = options.max_batch_sequences = streams;
    source.max_batch_tokens = options.max_batch_tokens = kPromptRows + streams;
    std::shared_ptr<ServedModel> model = Take(ServedModel::Load(source, plugins, &host_));
    metrics_ = std::make_unique<ModelMetrics>(
        &registry_, ModelMetrics::Labels{"m", "1", plugins[0]->name(), plugins[0]->device()});
    engine_ = std::make_unique<Engine>(std::move(model), options, metrics_.get());
  }

  Engine& engine() { return *engine_; }

  std::shared_ptr<Session> Open() {
    const ServedModel& model = engine_->model();
    TurnLease lease =
        TurnLease::OfNewSession(SessionId{0, ++num_sessions_}, model.name(),
                                model.backend().info().context_limit, absl::InfiniteDuration());
    std::shared_ptr<Session> session = lease.session();
    absl::Notification done;
    absl::Status status;
    engine_->Open(std::move(lease), [&](absl::Status opened) {
      status = std::move(opened);
      done.Notify();
    });
    done.WaitForNotification();
    Check(status);
    return session;
  }

 private:
  // Prints the plugin's line about its steps.
  static void Log(uint32_t streams, std::string_view text) {
    if (text.find("full steps") == std::string_view::npos) return;
    std::printf("%4u streams: %.*s\n", streams, static_cast<int>(text.size()), text.data());
    std::fflush(stdout);
  }

  Host host_;
  prometheus::Registry registry_;
  std::unique_ptr<ModelMetrics> metrics_;
  std::unique_ptr<Engine> engine_;
  uint64_t num_sessions_ = 0;
};

std::shared_ptr<Turn> NewTurn(const Flags& flags, uint32_t stream) {
  TurnRequest request;
  for (uint32_t i = 0; i < flags.prompt; ++i) {
    request.prompt.push_back(static_cast<int32_t>((7 * stream + 13 * i) % 256));
  }
  request.max_tokens = flags.tokens;
  return std::make_shared<Turn>(std::move(request));
}

// Reads what has arrived. Returns whether the turn has ended.
bool Read(Turn& turn) {
  while (true) {
    const TurnStream::Item item = turn.stream.Next();
    if (const auto* end = std::get_if<TurnEnd>(&item)) {
      Check(end->status);
      return true;
    }
    const auto* event = std::get_if<TurnEvent>(&item);
    if (event == nullptr) return false;
    if (const auto* delta = std::get_if<DeltaEvent>(event)) turn.stream.Delivered(delta->position);
  }
}

// Runs a turn on each of `streams` sessions. When the model is closed, its plugin logs the times.
void Run(const Flags& flags, const std::string& directory, uint32_t streams) {
  Served served(flags, directory, streams);
  std::vector<std::shared_ptr<Turn>> turns;
  for (uint32_t i = 0; i < streams; ++i) {
    turns.push_back(NewTurn(flags, i));
    Check(served.engine().Start(turns.back(), Take(TurnLease::Take(served.Open()))));
  }
  while (!turns.empty()) {
    std::erase_if(turns, [](const std::shared_ptr<Turn>& turn) { return Read(*turn); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int Main(const Flags& flags) {
  const ModelDirectory directory(BenchConfig(flags.shape, flags.plan));
  std::printf("%s %s, prompts of %u tokens, %llu new tokens\n", flags.shape.c_str(),
              flags.plan.c_str(), flags.prompt, static_cast<unsigned long long>(flags.tokens));
  for (const uint32_t streams : flags.streams) Run(flags, directory.path(), streams);
  return 0;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  longstream::Flags flags;
  CLI::App app("The engine with many streams at once, on a plugin with random weights.");
  app.option_defaults()->always_capture_default();
  app.add_option("--plugin", flags.plugin, "random_dense.so or another")->required();
  app.add_option("--shape", flags.shape)->check(CLI::IsMember(longstream::BenchShapes()));
  app.add_option("--plan", flags.plan)->check(CLI::IsMember(longstream::BenchPlans()));
  app.add_option("--streams", flags.streams)->delimiter(',');
  app.add_option("--prompt", flags.prompt, "tokens of each prompt");
  app.add_option("--tokens", flags.tokens, "tokens that each stream generates");
  return longstream::RunProgram("batching_bench", app, argc, argv,
                                [&] { return longstream::Main(flags); });
}
